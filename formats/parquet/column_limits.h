// Minimum and maximum of a column from the statistics of a Parquet file.
#pragma once

#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <string>
#include <string_view>

#include "formats/parquet/arrow_columns.h"
#include "formats/parquet/plain_numbers.h"

namespace lockstep::formats {

// The limits of a column in a row group, as numbers or strings.
struct ColumnLimits {
  double min = kNaN, max = kNaN;
  std::string first, last;
  bool has_words = false;
};

// Converts a stored date or time to seconds, as append_values() does.
inline double in_seconds(double stored, const parquet::LogicalType& logical) {
  const auto of_unit = [&](parquet::LogicalType::TimeUnit::unit unit) {
    return stored / (unit == parquet::LogicalType::TimeUnit::MILLIS   ? 1e3
                     : unit == parquet::LogicalType::TimeUnit::MICROS ? 1e6
                                                                      : 1e9);
  };
  if (logical.is_date()) return stored * kSecondsPerDay;
  if (logical.is_timestamp())
    return of_unit(static_cast<const parquet::TimestampLogicalType&>(logical).time_unit());
  if (logical.is_time())
    return of_unit(static_cast<const parquet::TimeLogicalType&>(logical).time_unit());
  return stored;
}

template <class ParquetType>
ColumnLimits limits_as_numbers(const parquet::Statistics& statistics,
                               const parquet::LogicalType* logical = nullptr) {
  const auto& typed = static_cast<const parquet::TypedStatistics<ParquetType>&>(statistics);
  const auto min = static_cast<double>(typed.min()), max = static_cast<double>(typed.max());
  if (!logical) return {min, max, {}, {}, false};
  return {in_seconds(min, *logical), in_seconds(max, *logical), {}, {}, false};
}

// Whether values of the column may be NaN, which is not part of the statistics.
inline bool may_have_nan(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  return column.physical_type() == parquet::Type::FLOAT ||
         column.physical_type() == parquet::Type::DOUBLE || (logical && logical->is_float16());
}

inline ColumnLimits limits_of(const parquet::Statistics& statistics,
                              const parquet::ColumnDescriptor& column) {
  if (!statistics.HasMinMax() || statistics.physical_type() != column.physical_type()) return {};
  const auto& logical = column.logical_type();
  const bool plain =
      !logical || logical->is_none() || logical->is_date() || logical->is_timestamp() ||
      logical->is_time() ||
      (logical->is_int() && static_cast<const parquet::IntLogicalType&>(*logical).is_signed());
  switch (column.physical_type()) {
    case parquet::Type::INT32:
      return plain ? limits_as_numbers<parquet::Int32Type>(statistics, logical.get())
                   : ColumnLimits{};
    case parquet::Type::INT64:
      return plain ? limits_as_numbers<parquet::Int64Type>(statistics, logical.get())
                   : ColumnLimits{};
    case parquet::Type::FLOAT: return limits_as_numbers<parquet::FloatType>(statistics);
    case parquet::Type::DOUBLE: return limits_as_numbers<parquet::DoubleType>(statistics);
    case parquet::Type::BYTE_ARRAY: {
      if (!logical || !logical->is_string()) return {};
      const auto& typed =
          static_cast<const parquet::TypedStatistics<parquet::ByteArrayType>&>(statistics);
      const std::string_view first(typed.min()), last(typed.max());
      return {kNaN, kNaN, std::string(first), std::string(last), true};
    }
    default: return {};
  }
}

// Of a top-level column that read() supports.
inline ColumnKind kind_by_type(const parquet::ColumnDescriptor& column) {
  if (column.max_repetition_level() > 0) return ColumnKind::Lists;
  const auto& logical = column.logical_type();
  const bool is_time =
      logical && (logical->is_date() || logical->is_time() || logical->is_timestamp());
  const bool are_integers = column.physical_type() == parquet::Type::INT32 ||
                            column.physical_type() == parquet::Type::INT64;
  const bool are_numbers = column.physical_type() == parquet::Type::BOOLEAN ||
                           is_plain_number(column) || (are_integers && is_time);
  return are_numbers ? ColumnKind::Numbers : ColumnKind::Unknown;
}

}  // namespace lockstep::formats
