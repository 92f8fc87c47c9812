#include "cli/aligned_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "core/printable.h"

namespace lockstep::cli {

void print_aligned(std::vector<TextRow> rows, std::ostream& out) {
  for (auto& row : rows)
    for (auto& cell : row) cell = printable(cell, std::string_view::npos);
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column)
      line += fmt::format("{:<{}}  ", row[column], widths[column]);
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

std::string age_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e10)) return "-";
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min", whole / 60);
  if (whole < 48 * 3600) return fmt::format("{} h", whole / 3600);
  return fmt::format("{} days", whole / 86400);
}

}  // namespace lockstep::cli
