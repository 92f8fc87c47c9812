// Decodes columns of plain numbers in pieces directly into table columns, without intermediate
// Arrow arrays.
#pragma once

#include <parquet/column_reader.h>

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "formats/parquet/arrow_columns.h"

namespace lockstep::formats {

struct PlainNumbers {
  std::vector<double> values;  // NaN: missing
  bool are_all_there = true;
};

// Whether values are numbers without a logical type that changes their meaning.
inline bool is_plain_number(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  const bool plain = !logical || logical->is_none() || logical->is_int();
  switch (column.physical_type()) {
    case parquet::Type::INT32:
    case parquet::Type::INT64:
    case parquet::Type::FLOAT:
    case parquet::Type::DOUBLE: return plain;
    default: return false;
  }
}

// Whether this is a top-level column of plain numbers.
inline bool has_plain_numbers(const parquet::ColumnDescriptor& column) {
  return column.max_repetition_level() == 0 && column.max_definition_level() <= 1 &&
         is_plain_number(column);
}

// Inserts NaN for missing values according to the definition levels.
inline void spread(const std::vector<int16_t>& levels, int64_t num_levels, int64_t num_values,
                   std::vector<double>& out) {
  const auto begin = out.size() - static_cast<size_t>(num_values);
  out.resize(begin + static_cast<size_t>(num_levels));
  auto from = num_values;
  for (auto to = num_levels; to-- > 0;)
    out[begin + static_cast<size_t>(to)] =
        levels[static_cast<size_t>(to)] > 0 ? out[begin + static_cast<size_t>(--from)] : kNaN;
}

// Whether the definition levels match the number of values; false for corrupt pages.
inline bool is_consistent(const std::vector<int16_t>& levels, int64_t num_levels,
                          int64_t num_values) {
  int64_t there = 0;
  for (int64_t i = 0; i < num_levels; ++i) there += levels[static_cast<size_t>(i)] > 0;
  return there == num_values;
}

// Appends a piece that is still in the cache. Returns whether no value is missing.
template <class T>
bool append_dense(std::span<const T> values, std::vector<double>& out) {
  out.insert(out.end(), values.begin(), values.end());
  int64_t missing = 0;
  if constexpr (std::is_floating_point_v<T>)
    for (const auto value : values) missing += !is_usable(value);
  return missing == 0;
}

// `T`: the type of the stored values.
template <class ParquetType, class T>
std::optional<PlainNumbers> read_as(parquet::ColumnReader& column, size_t rows) {
  constexpr int64_t kPiece = 4096;
  auto& reader = static_cast<parquet::TypedColumnReader<ParquetType>&>(column);
  const bool has_levels = column.descr()->max_definition_level() > 0;
  std::vector<int16_t> levels(kPiece);
  std::vector<typename ParquetType::c_type> values(kPiece);
  PlainNumbers result;
  auto& numbers = result.values;
  numbers.reserve(rows);
  while (numbers.size() < rows && reader.HasNext()) {
    const auto max_count = std::min<int64_t>(kPiece, static_cast<int64_t>(rows - numbers.size()));
    int64_t num_values = 0;
    const auto num_levels =
        reader.ReadBatch(max_count, levels.data(), nullptr, values.data(), &num_values);
    if (num_levels <= 0) return std::nullopt;
    if (!append_dense(
            std::span(reinterpret_cast<const T*>(values.data()), static_cast<size_t>(num_values)),
            numbers))
      result.are_all_there = false;
    if (!has_levels || num_levels == num_values) continue;
    if (!is_consistent(levels, num_levels, num_values)) return std::nullopt;
    spread(levels, num_levels, num_values, numbers);
    result.are_all_there = false;
  }
  return result;
}

// Reads at most `rows` values of a column with has_plain_numbers(); fewer if the column has fewer.
// nullopt for corrupt pages. Throws parquet::ParquetException.
inline std::optional<PlainNumbers> read_plain_numbers(parquet::ColumnReader& column, size_t rows) {
  const auto& logical = column.descr()->logical_type();
  const bool is_unsigned = logical && logical->is_int() &&
                           !static_cast<const parquet::IntLogicalType&>(*logical).is_signed();
  switch (column.descr()->physical_type()) {
    case parquet::Type::INT32:
      return is_unsigned ? read_as<parquet::Int32Type, uint32_t>(column, rows)
                         : read_as<parquet::Int32Type, int32_t>(column, rows);
    case parquet::Type::INT64:
      return is_unsigned ? read_as<parquet::Int64Type, uint64_t>(column, rows)
                         : read_as<parquet::Int64Type, int64_t>(column, rows);
    case parquet::Type::FLOAT: return read_as<parquet::FloatType, float>(column, rows);
    case parquet::Type::DOUBLE: return read_as<parquet::DoubleType, double>(column, rows);
    default: return std::nullopt;
  }
}

}  // namespace lockstep::formats
