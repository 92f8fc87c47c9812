#include "core/config/launch_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace lockstep {
namespace {

constexpr int64_t kMaxSamples = 1 << 30;  // of data.batch_size
constexpr size_t kCountsNamed = 6;

// The least that all of them divide; 0 where that is more than a batch may have.
int64_t common_multiple(const std::vector<int64_t>& ranks) {
  int64_t multiple = 1;
  for (const auto count : ranks) {
    multiple = std::lcm(multiple, count);
    if (multiple > kMaxSamples) return 0;
  }
  return multiple;
}

std::string counts_text(std::vector<int64_t> counts) {
  const bool is_cut = counts.size() > kCountsNamed;
  if (is_cut) counts.resize(kCountsNamed);
  return fmt::format("{}{}", fmt::join(counts, ", "), is_cut ? ", ..." : "");
}

std::string nearest_sizes(int64_t batch_size, int64_t multiple) {
  const auto below = batch_size / multiple * multiple;
  const auto above = below + multiple;
  return below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

}  // namespace

std::string batch_size_problem(int64_t batch_size, const std::vector<int64_t>& ranks,
                               const std::string& allowed_by) {
  std::vector<int64_t> fitting, others;
  for (const auto count : ranks) (batch_size % count == 0 ? fitting : others).push_back(count);
  if (others.empty()) return {};
  auto text = fmt::format("data.batch_size: {} samples do not divide over {} ranks", batch_size,
                          counts_text(others));
  if (!allowed_by.empty())
    text += fmt::format(", which {} allows ({})", allowed_by,
                        fitting.empty() ? "no number that it allows divides them"
                                        : fmt::format("they do over {}", counts_text(fitting)));
  if (const auto multiple = common_multiple(ranks))
    text += fmt::format("; the nearest that do: {}", nearest_sizes(batch_size, multiple));
  return text +
         " (or set data.batch_remainder: uneven or pad, or data.per_rank_batch_size instead)";
}

}  // namespace lockstep
