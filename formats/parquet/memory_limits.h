// Limits of what a Parquet or Arrow file may claim to contain. Without them, false metadata could
// exhaust memory.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "lockstep/error.h"

namespace lockstep::formats {

// The greatest number of rows: even highly compressible columns need a page per ten thousand rows
// or so.
inline int64_t max_rows(int64_t file_bytes) { return (int64_t{1} << 22) + 4096 * file_bytes; }

// The greatest size of the decoded columns of a row group or record batch.
inline int64_t max_group_bytes(int64_t file_bytes) {
  return (int64_t{1} << 30) + 1024 * file_bytes;
}

// The greatest number of values there, at 8 bytes each.
inline size_t max_group_values(int64_t file_bytes) {
  return static_cast<size_t>(max_group_bytes(file_bytes)) / sizeof(double);
}

// Throws Config if these values exceed the limit. `name`, and `group`, such as "row group": for the
// message.
inline void verify_group_size(size_t rows, size_t columns, int64_t file_bytes,
                              const std::string& name, const char* group) {
  if (rows <= max_group_values(file_bytes) / std::max<size_t>(columns, 1)) return;
  throw config_error(fmt::format(
      "{}: {} rows of {} columns exceed the memory limit of a {}, {} bytes for a file of {} bytes; "
      "use fewer columns, or write it with fewer rows in each",
      name, rows, columns, group, max_group_bytes(file_bytes), file_bytes));
}

}  // namespace lockstep::formats
