// Software prefetch for reading rows of large arrays in random order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::data {

// Prefetch distance in rows: processing two long rows, or sixteen rows of a few numbers, takes
// about as long as a memory access.
constexpr size_t kRowsAhead = 2, kShortRowsAhead = 16;

// Prefetches the first 2 KiB; hardware prefetch follows. Does not fault in unmapped pages of a
// mapped file. always_inline: g++ treats a function that only prefetches as having no effect, and
// removes calls to it.
[[gnu::always_inline]] inline void prefetch_bytes(const uint8_t* from, size_t bytes) {
  constexpr size_t kLine = 64, kMaxBytes = 2048;
  for (size_t i = 0; i < std::min(bytes, kMaxBytes); i += kLine) __builtin_prefetch(from + i);
}

// Call before reading row rows[at]. `base`: address of row 0.
[[gnu::always_inline]] inline void prefetch_row(const uint8_t* base, size_t row_bytes,
                                                std::span<const int64_t> rows, size_t at,
                                                size_t ahead = kRowsAhead) {
  if (at + ahead >= rows.size()) return;
  prefetch_bytes(base + static_cast<size_t>(rows[at + ahead]) * row_bytes, row_bytes);
}

}  // namespace lockstep::data
