// What Arrow's arrays hold, as columns of a table.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/table.h"

namespace lockstep {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Texts come as dictionaries: each word once per chunk, a number per row. Where each word stands
// among those of the column.
using WordNumbers = std::unordered_map<std::string, int32_t>;

template <class ArrowType>
void append_numbers(const arrow::Array& array, std::vector<double>& out) {
  const auto& values = static_cast<const arrow::NumericArray<ArrowType>&>(array);
  const auto* raw = values.raw_values();
  const auto begin = out.size();
  out.insert(out.end(), raw, raw + values.length());
  if (values.null_count() == 0) return;
  for (int64_t i = 0; i < values.length(); ++i)
    if (values.IsNull(i)) out[begin + static_cast<size_t>(i)] = kNaN;
}

inline void append_truth(const arrow::Array& array, std::vector<double>& out) {
  const auto& values = static_cast<const arrow::BooleanArray&>(array);
  for (int64_t i = 0; i < values.length(); ++i)
    out.push_back(values.IsNull(i) ? kNaN : values.Value(i) ? 1 : 0);
}

// False for types that are no numbers.
inline bool append_as_numbers(const arrow::Array& array, std::vector<double>& out) {
  switch (array.type_id()) {
    case arrow::Type::BOOL: append_truth(array, out); return true;
    case arrow::Type::INT8: append_numbers<arrow::Int8Type>(array, out); return true;
    case arrow::Type::UINT8: append_numbers<arrow::UInt8Type>(array, out); return true;
    case arrow::Type::INT16: append_numbers<arrow::Int16Type>(array, out); return true;
    case arrow::Type::UINT16: append_numbers<arrow::UInt16Type>(array, out); return true;
    case arrow::Type::INT32: append_numbers<arrow::Int32Type>(array, out); return true;
    case arrow::Type::UINT32: append_numbers<arrow::UInt32Type>(array, out); return true;
    case arrow::Type::INT64: append_numbers<arrow::Int64Type>(array, out); return true;
    case arrow::Type::UINT64: append_numbers<arrow::UInt64Type>(array, out); return true;
    case arrow::Type::FLOAT: append_numbers<arrow::FloatType>(array, out); return true;
    case arrow::Type::DOUBLE: append_numbers<arrow::DoubleType>(array, out); return true;
    case arrow::Type::DATE32: append_numbers<arrow::Date32Type>(array, out); return true;
    case arrow::Type::DATE64: append_numbers<arrow::Date64Type>(array, out); return true;
    case arrow::Type::TIME32: append_numbers<arrow::Time32Type>(array, out); return true;
    case arrow::Type::TIME64: append_numbers<arrow::Time64Type>(array, out); return true;
    case arrow::Type::TIMESTAMP: append_numbers<arrow::TimestampType>(array, out); return true;
    case arrow::Type::DURATION: append_numbers<arrow::DurationType>(array, out); return true;
    default: return false;
  }
}

inline bool append_words(const arrow::Array& array, TableColumn& out, WordNumbers& known) {
  if (array.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
  const auto& words = *dictionary.dictionary();
  const auto* texts = dynamic_cast<const arrow::StringArray*>(&words);
  if (!texts) return false;
  std::vector<int32_t> numbers;  // of this chunk's words among all
  for (int64_t i = 0; i < texts->length(); ++i) {
    const auto [word, is_new] =
        known.emplace(texts->GetString(i), static_cast<int32_t>(out.words.size()));
    if (is_new) out.words.push_back(word->first);
    numbers.push_back(word->second);
  }
  for (int64_t i = 0; i < dictionary.length(); ++i)
    out.codes.push_back(
        dictionary.IsNull(i) ? -1 : numbers[static_cast<size_t>(dictionary.GetValueIndex(i))]);
  return true;
}

// Adds the values of a validated array to a column: truth values as 0 and 1, times as their number,
// what is missing as TableColumn says. False for types that are neither numbers nor texts.
inline bool append_values(const arrow::Array& array, TableColumn& out, WordNumbers& known) {
  return append_words(array, out, known) || append_as_numbers(array, out.numbers);
}

}  // namespace lockstep
