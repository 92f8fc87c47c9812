#include "core/config/size_text.h"

#include <fmt/format.h>

#include <array>

namespace lockstep {

std::string size_text(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto amount = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; amount >= 999.95 && unit + 1 < kUnits.size(); ++unit) amount /= 1000;
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace lockstep
