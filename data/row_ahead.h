// Rows of large arrays in random order: memory is asked for a row while those before it are worked
// on, so that nobody waits for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

// So many bytes, and at least so many rows, ahead: their copy takes about the time of memory.
constexpr size_t kBytesAhead = 1024, kRowsAhead = 2;

// Call it before row rows[at] is read. `base`: of row 0. A long row is asked for in part: the
// processor sees by itself how it goes on. Memory that is not there (a mapped file) is not touched.
inline void ask_ahead(const uint8_t* base, size_t row_bytes, std::span<const int64_t> rows,
                      size_t at) {
  constexpr size_t kLine = 64, kMost = 2048;
  const auto next = at + std::max(kRowsAhead, kBytesAhead / std::max<size_t>(row_bytes, 1));
  if (next >= rows.size()) return;
  const auto* row = base + static_cast<size_t>(rows[next]) * row_bytes;
  for (size_t i = 0; i < std::min(row_bytes, kMost); i += kLine) __builtin_prefetch(row + i);
}

}  // namespace lockstep
