#include "core/config/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(const std::string& given,
                                        const std::vector<std::string>& candidates) {
  constexpr size_t kMaxNameLength = 200;
  if (given.size() > kMaxNameLength) return std::nullopt;
  std::optional<std::string> best;
  size_t best_distance = 2 + given.size() / 3;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(given, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggest(const std::string& given, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "; none are valid here";
  const auto nearest = nearest_name(given, candidates);
  const auto hint = nearest ? fmt::format("; did you mean '{}'?", *nearest) : ";";
  return fmt::format("{} valid: {}", hint, fmt::join(candidates, ", "));
}

}  // namespace lockstep
