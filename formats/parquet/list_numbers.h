// Decodes columns of fixed-length lists of numbers, such as embeddings, in pieces.
#pragma once

#include <arrow/util/float16.h>
#include <parquet/column_reader.h>

#include <cstring>
#include <type_traits>
#include <vector>

#include "formats/parquet/arrow_columns.h"
#include "formats/parquet/list_columns.h"
#include "formats/parquet/plain_numbers.h"

namespace lockstep::formats {

// Whether the column is a top-level list of plain numbers: name.list.element.
inline bool has_lists_of_numbers(const parquet::ColumnDescriptor& column) {
  if (column.max_repetition_level() != 1 || column.path()->ToDotVector().size() != 3) return false;
  const auto* list = column.schema_node()->parent()->parent();
  if (!list->logical_type() || !list->logical_type()->is_list()) return false;
  const auto& logical = column.logical_type();
  const bool is_half = column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY && logical &&
                       logical->is_float16() && column.type_length() == 2;
  return is_half || is_plain_number(column);
}

template <class ParquetType, class ToDouble>
void read_lists_as(parquet::ColumnReader& column, const ToDouble& to_double, ListNumbers& lists) {
  constexpr int64_t kPiece = 4096;
  auto& reader = static_cast<parquet::TypedColumnReader<ParquetType>&>(column);
  const auto has_value = column.descr()->max_definition_level();
  const auto* list = column.descr()->schema_node()->parent()->parent();
  const int has_element = (list->is_optional() ? 1 : 0) + 1;
  std::vector<int16_t> definitions(kPiece), repetitions(kPiece);
  std::vector<typename ParquetType::c_type> values(kPiece);
  while (reader.HasNext()) {
    int64_t num_values = 0, next = 0;
    const auto num_levels = reader.ReadBatch(kPiece, definitions.data(), repetitions.data(),
                                             values.data(), &num_values);
    if (num_levels <= 0) return;
    for (int64_t i = 0; i < num_levels; ++i) {
      const auto level = definitions[static_cast<size_t>(i)];
      if (repetitions[static_cast<size_t>(i)] == 0) lists.begin_row();
      if (level < has_element) continue;
      const bool is_there = level == has_value && next < num_values;
      lists.add(is_there ? to_double(values[static_cast<size_t>(next++)]) : kNaN);
    }
  }
}

// Reads a column with has_lists_of_numbers() and at most `max_values` numbers. Throws Config if
// lists differ in length or their number differs from the rows; parquet::ParquetException.
inline std::vector<TableColumn> read_lists(parquet::ColumnReader& column, const std::string& name,
                                           const DataTable& table, size_t max_values) {
  ListNumbers lists(name, table, max_values);
  const auto& logical = column.descr()->logical_type();
  const bool is_unsigned = logical && logical->is_int() &&
                           !static_cast<const parquet::IntLogicalType&>(*logical).is_signed();
  const auto plain = [](auto value) { return static_cast<double>(value); };
  const auto whole = [&](auto v) {
    return is_unsigned ? plain(static_cast<std::make_unsigned_t<decltype(v)>>(v)) : plain(v);
  };
  switch (column.descr()->physical_type()) {
    case parquet::Type::INT32: read_lists_as<parquet::Int32Type>(column, whole, lists); break;
    case parquet::Type::INT64: read_lists_as<parquet::Int64Type>(column, whole, lists); break;
    case parquet::Type::FLOAT: read_lists_as<parquet::FloatType>(column, plain, lists); break;
    case parquet::Type::DOUBLE: read_lists_as<parquet::DoubleType>(column, plain, lists); break;
    default:
      read_lists_as<parquet::FLBAType>(
          column,
          [](const parquet::FixedLenByteArray& bytes) {
            uint16_t bits = 0;
            std::memcpy(&bits, bytes.ptr, sizeof(bits));
            return arrow::util::Float16::FromBits(bits).ToDouble();
          },
          lists);
  }
  return lists.columns();
}

}  // namespace lockstep::formats
