// What the cells of text tables mean: numbers, truth values, dates and times. No LibTorch.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::formats {

// What one cell is, before the kind of its column is known.
enum class CellKind {
  Number,     // 1, -2.5e3, inf; NaN: a missing number
  Truth,      // True, False, true, false, TRUE, FALSE
  Time,       // 2026-01-31, 2026-01-31 12:00:00, 12:00, 2 days 03:00:00
  Formatted,  // a number or date that is written for people: 1,000, 10%, $5, 31.01.2026
  Text,
};

struct Cell {
  CellKind kind = CellKind::Text;
  double value = 0;         // of numbers; 1 or 0; seconds
  const char* format = "";  // of Formatted: what keeps it from being a number
};

// Spaces around the value do not matter. `decimal`: '.' or ','. Dates and times become seconds
// since 1970, those without a zone in UTC; times of day and durations seconds.
Cell read_cell(std::string_view text, char decimal = '.');

// The value of a cell that is a number, a truth value or a time; nothing for any other.
std::optional<double> cell_value(std::string_view text, char decimal = '.');

}  // namespace lockstep::formats
