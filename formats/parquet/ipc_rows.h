// Converts rows of Arrow record batches to table columns. Checks offsets and indices of the used
// rows only, so that single rows can be read from large batches.
#pragma once

#include <arrow/api.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/parquet/arrow_columns.h"
#include "formats/parquet/arrow_errors.h"
#include "formats/parquet/ipc_messages.h"
#include "formats/parquet/list_columns.h"

namespace lockstep::formats {

// Consecutive rows of a column in a record batch, for which Validate() succeeded.
struct RowRun {
  const arrow::Array* array;
  int64_t begin = 0, count = 0;
};

inline bool has_numbers(const std::shared_ptr<arrow::DataType>& type, const std::string& name) {
  std::vector<double> none;
  return append_as_numbers(*accepted(arrow::MakeEmptyArray(type), name), none);
}

inline bool has_lists(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
         type.id() == arrow::Type::FIXED_SIZE_LIST;
}

// Strings of a dictionary, which all record batches share.
inline void append_dictionary_rows(const RowRun& run, const std::string& name,
                                   std::unordered_map<int64_t, int32_t>& codes, TableColumn& out,
                                   WordNumbers& known) {
  const auto& array = static_cast<const arrow::DictionaryArray&>(*run.array);
  const auto& words = *array.dictionary();
  for (auto row = run.begin; row < run.begin + run.count; ++row) {
    if (array.IsNull(row)) {
      out.codes.push_back(-1);
      continue;
    }
    const auto index = array.GetValueIndex(row);
    if (index < 0 || index >= words.length())
      throw ipc_error(name, "an index is outside of its dictionary");
    const auto code = codes.find(index);
    if (code != codes.end()) {
      out.codes.push_back(code->second);
      continue;
    }
    const auto word = words.Slice(index, 1);
    accept(word->ValidateFull(), name, kIpcFormat);
    append_strings(*word, out, known);
    codes.emplace(index, out.codes.back());
  }
}

inline TableColumn text_rows(std::span<const RowRun> runs, const std::string& column,
                             const std::string& name) {
  TableColumn out{.name = column, .is_text = true};
  WordNumbers known;
  std::unordered_map<int64_t, int32_t> codes;  // of indices in the dictionary
  for (const auto& run : runs) {
    if (run.array->type_id() == arrow::Type::DICTIONARY) {
      append_dictionary_rows(run, name, codes, out, known);
      continue;
    }
    const auto rows = run.array->Slice(run.begin, run.count);
    accept(rows->ValidateFull(), name, kIpcFormat);
    append_strings(*rows, out, known);
  }
  return out;
}

inline TableColumn number_rows(std::span<const RowRun> runs, const std::string& column) {
  TableColumn out{.name = column};
  for (const auto& run : runs)
    append_as_numbers(*run.array->Slice(run.begin, run.count), out.numbers);
  return out;
}

// The numbers of a list: their begin and count in `values`.
struct ListPlace {
  std::shared_ptr<arrow::Array> values;
  int64_t begin = 0, count = 0;
};

// In 64 bits: corrupt offsets can be far apart.
template <class List>
ListPlace place_in(const arrow::Array& array, int64_t row) {
  const auto& list = static_cast<const List&>(array);
  const auto* offsets = list.raw_value_offsets() + row;
  const int64_t begin = offsets[0], end = offsets[1];
  return {list.values(), begin, begin < 0 || end < begin ? -1 : end - begin};
}

inline ListPlace place_in_fixed(const arrow::Array& array, int64_t row) {
  const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
  return {list.values(), list.value_offset(row), list.value_length()};
}

inline ListPlace list_at(const arrow::Array& array, int64_t row, const std::string& name) {
  if (array.IsNull(row)) return {};
  auto place = array.type_id() == arrow::Type::LIST ? place_in<arrow::ListArray>(array, row)
               : array.type_id() == arrow::Type::LARGE_LIST
                   ? place_in<arrow::LargeListArray>(array, row)
                   : place_in_fixed(array, row);
  const auto length = place.values->length();
  if (place.begin < 0 || place.count < 0 || place.begin > length ||
      place.count > length - place.begin)
    throw ipc_error(name, "a list is outside of its values");
  return place;
}

// `width`: of the lists if all of these rows may be empty; 0: unknown.
inline std::vector<TableColumn> list_rows(std::span<const RowRun> runs, const std::string& column,
                                          const DataTable& table, size_t max_values, size_t width) {
  ListNumbers lists(column, table, max_values, width);
  std::vector<double> numbers;
  for (const auto& run : runs)
    for (auto row = run.begin; row < run.begin + run.count; ++row) {
      lists.begin_row();
      const auto place = list_at(*run.array, row, table.name);
      if (place.count == 0) continue;
      numbers.clear();
      append_as_numbers(*place.values->Slice(place.begin, place.count), numbers);
      for (const auto number : numbers) lists.add(number);
    }
  return lists.columns();
}

}  // namespace lockstep::formats
