// Converts Arrow arrays of strings to table columns.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "formats/table/word_numbers.h"

namespace lockstep::formats {

inline bool has_strings(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}

inline bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY || has_strings(type);
}

template <class ArrowArray>
void append_texts(const arrow::Array& array, TableColumn& out, WordNumbers& known) {
  const auto& texts = static_cast<const ArrowArray&>(array);
  for (int64_t i = 0; i < texts.length(); ++i)
    out.codes.push_back(texts.IsNull(i) ? -1 : number_of_word(texts.GetString(i), out, known));
}

// Appends an array with has_strings().
inline void append_strings(const arrow::Array& array, TableColumn& out, WordNumbers& known) {
  if (array.type_id() == arrow::Type::STRING)
    append_texts<arrow::StringArray>(array, out, known);
  else if (array.type_id() == arrow::Type::LARGE_STRING)
    append_texts<arrow::LargeStringArray>(array, out, known);
  else
    append_texts<arrow::StringViewArray>(array, out, known);
}

// Arrow returns strings as dictionary arrays (distinct strings per chunk and an index per row) if
// their encoding supports it.
inline bool append_words(const arrow::Array& array, TableColumn& out, WordNumbers& known) {
  if (has_strings(*array.type())) {
    append_strings(array, out, known);
    return true;
  }
  if (array.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
  if (!has_strings(*dictionary.dictionary()->type())) return false;
  TableColumn words;  // its codes: index in the column of each string of this chunk
  std::swap(words.words, out.words);
  append_strings(*dictionary.dictionary(), words, known);
  std::swap(words.words, out.words);
  for (int64_t i = 0; i < dictionary.length(); ++i)
    out.codes.push_back(
        dictionary.IsNull(i) ? -1 : words.codes[static_cast<size_t>(dictionary.GetValueIndex(i))]);
  return true;
}

}  // namespace lockstep::formats
