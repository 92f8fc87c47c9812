// Parses cells of text tables: numbers, booleans, dates and times. No LibTorch.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::formats {

// The kind of a single cell, independent of its column.
enum class CellKind {
  Number,     // 1, -2.5e3, inf; NaN: a missing number
  Truth,      // True, False, true, false, TRUE, FALSE
  Time,       // 2026-01-31, 2026-01-31 12:00:00, 12:00, 2 days 03:00:00
  Formatted,  // a number or date in a format for display: 1,000, 10%, $5, 31.01.2026
  Text,
};

struct Cell {
  CellKind kind = CellKind::Text;
  double value = 0;         // the number; 1 or 0 for Truth; seconds for Time
  const char* format = "";  // of Formatted: why it is not a number
};

// Ignores surrounding spaces. `decimal`: '.' or ','. Dates and times are converted to seconds since
// 1970 (UTC if they have no time zone), times of day and durations to seconds.
Cell read_cell(std::string_view text, char decimal = '.');

// The value of a Number, Truth or Time cell; nullopt for others.
std::optional<double> cell_value(std::string_view text, char decimal = '.');

}  // namespace lockstep::formats
