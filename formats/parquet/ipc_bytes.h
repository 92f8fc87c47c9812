// Copies binary cells, such as encoded images, of Arrow record batches.
#pragma once

#include <arrow/api.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/printable.h"
#include "formats/parquet/arrow_errors.h"
#include "formats/parquet/ipc_messages.h"
#include "lockstep/error.h"

namespace lockstep::formats {

template <class Binary>
std::vector<uint8_t> copy_of_cell(const arrow::Array& cell) {
  const auto view = static_cast<const Binary&>(cell).GetView(0);
  return {view.begin(), view.end()};
}

// The bytes of a binary cell, or of the field "bytes" of a structure. `where`: for messages.
inline std::vector<uint8_t> bytes_at(const arrow::Array& array, int64_t row,
                                     const std::string& where) {
  if (array.type_id() == arrow::Type::STRUCT && array.IsValid(row))
    if (const auto bytes = static_cast<const arrow::StructArray&>(array).GetFieldByName("bytes"))
      return bytes_at(*bytes, row, where);
  const auto cell = array.Slice(row, 1);
  if (array.type_id() != arrow::Type::STRUCT) accept(cell->ValidateFull(), where, kIpcFormat);
  if (cell->IsNull(0))
    throw config_error(where + " has no bytes: store the content of the files, not their paths");
  switch (array.type_id()) {
    case arrow::Type::BINARY: return copy_of_cell<arrow::BinaryArray>(*cell);
    case arrow::Type::LARGE_BINARY: return copy_of_cell<arrow::LargeBinaryArray>(*cell);
    case arrow::Type::BINARY_VIEW: return copy_of_cell<arrow::BinaryViewArray>(*cell);
    default:
      throw config_error(fmt::format("{} is {}, not binary, nor a structure with binary 'bytes'",
                                     where, printable(array.type()->ToString())));
  }
}

}  // namespace lockstep::formats
