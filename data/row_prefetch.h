// Rows of large arrays in random order: memory is asked for a row while those before it are worked
// on, so that nobody waits for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::data {

// So many rows ahead: the time that two long rows, or sixteen of some numbers, take is about that
// of memory.
constexpr size_t kRowsAhead = 2, kShortRowsAhead = 16;

// Asks for bytes that are read soon; for a long row in part: the processor sees by itself how it
// goes on. Memory that is not there (a mapped file) is not touched. always_inline: g++ takes a
// function that only asks for one without effect, and leaves its calls out.
[[gnu::always_inline]] inline void prefetch_bytes(const uint8_t* from, size_t bytes) {
  constexpr size_t kLine = 64, kMaxBytes = 2048;
  for (size_t i = 0; i < std::min(bytes, kMaxBytes); i += kLine) __builtin_prefetch(from + i);
}

// Call it before row rows[at] is read. `base`: of row 0.
[[gnu::always_inline]] inline void prefetch_row(const uint8_t* base, size_t row_bytes,
                                             std::span<const int64_t> rows, size_t at,
                                             size_t ahead = kRowsAhead) {
  if (at + ahead >= rows.size()) return;
  prefetch_bytes(base + static_cast<size_t>(rows[at + ahead]) * row_bytes, row_bytes);
}

}  // namespace lockstep::data
