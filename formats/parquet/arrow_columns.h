// Converts Arrow arrays to table columns: numbers, and texts by arrow_texts.h.
#pragma once

#include <arrow/api.h>
#include <arrow/util/float16.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "formats/parquet/arrow_texts.h"
#include "formats/table/table.h"

namespace lockstep::formats {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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

inline constexpr double kSecondsPerDay = 86400;

// Converts values to seconds: value * seconds / units.
template <class ArrowType>
void append_seconds(const arrow::Array& array, double units, double seconds,
                    std::vector<double>& out) {
  const auto begin = out.size();
  append_numbers<ArrowType>(array, out);
  for (auto i = begin; i < out.size(); ++i) out[i] = out[i] * seconds / units;
}

inline double units_per_second(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND: return 1;
    case arrow::TimeUnit::MILLI: return 1e3;
    case arrow::TimeUnit::MICRO: return 1e6;
    default: return 1e9;
  }
}

template <class ArrowType>
void append_times(const arrow::Array& array, std::vector<double>& out) {
  const auto& type = static_cast<const ArrowType&>(*array.type());
  append_seconds<ArrowType>(array, units_per_second(type.unit()), 1, out);
}

inline void append_halves(const arrow::Array& array, std::vector<double>& out) {
  const auto& values = static_cast<const arrow::HalfFloatArray&>(array);
  for (int64_t i = 0; i < values.length(); ++i)
    out.push_back(values.IsNull(i) ? kNaN
                                   : arrow::util::Float16::FromBits(values.Value(i)).ToDouble());
}

inline void append_truth(const arrow::Array& array, std::vector<double>& out) {
  const auto& values = static_cast<const arrow::BooleanArray&>(array);
  for (int64_t i = 0; i < values.length(); ++i)
    out.push_back(values.IsNull(i) ? kNaN : values.Value(i) ? 1 : 0);
}

// Returns false for types that are not numeric.
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
    case arrow::Type::HALF_FLOAT: append_halves(array, out); return true;
    case arrow::Type::DATE32:
      append_seconds<arrow::Date32Type>(array, 1, kSecondsPerDay, out);
      return true;
    case arrow::Type::DATE64: append_seconds<arrow::Date64Type>(array, 1e3, 1, out); return true;
    case arrow::Type::TIME32: append_times<arrow::Time32Type>(array, out); return true;
    case arrow::Type::TIME64: append_times<arrow::Time64Type>(array, out); return true;
    case arrow::Type::TIMESTAMP: append_times<arrow::TimestampType>(array, out); return true;
    case arrow::Type::DURATION: append_times<arrow::DurationType>(array, out); return true;
    default: return false;
  }
}

// Appends a validated array to a column: booleans as 0 and 1, dates and times as seconds (since
// 1970, of the day, or of a duration), missing values as described for TableColumn. Returns false
// for types that are neither numbers nor strings.
inline bool append_values(const arrow::Array& array, TableColumn& out, WordNumbers& known) {
  return append_words(array, out, known) || append_as_numbers(array, out.numbers);
}

}  // namespace lockstep::formats
