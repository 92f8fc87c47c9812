// What holds of every table of a ColumnarFile, whatever its bytes. Aborts otherwise.
#pragma once

#include <cstdlib>

#include "formats/table/columnar_file.h"
#include "lockstep/error.h"

namespace lockstep {

inline void verify_columns(const formats::DataTable& table, size_t rows) {
  if (table.rows != rows) std::abort();
  for (const auto& column : table.columns) {
    if ((column.is_text ? column.codes.size() : column.numbers.size()) != rows) std::abort();
    for (const auto code : column.codes)
      if (code < -1 || code >= static_cast<int64_t>(column.words.size())) std::abort();
  }
}

// A Config error is the only one that bytes of a file may cause.
template <class Act>
void attempt(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
}

}  // namespace lockstep
