#include "core/config/launch_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxSamples = 1 << 30;  // of data.batch_size
constexpr size_t kMaxCountsListed = 6;

// The least common multiple of all; 0 if it exceeds the maximum batch size.
int64_t common_multiple(const std::vector<int64_t>& ranks) {
  int64_t multiple = 1;
  for (const auto count : ranks) {
    multiple = std::lcm(multiple, count);
    if (multiple > kMaxSamples) return 0;
  }
  return multiple;
}

std::string counts_text(std::vector<int64_t> counts) {
  const bool is_truncated = counts.size() > kMaxCountsListed;
  if (is_truncated) counts.resize(kMaxCountsListed);
  return fmt::format("{}{}", fmt::join(counts, ", "), is_truncated ? ", ..." : "");
}

std::string nearest_sizes(int64_t batch_size, int64_t multiple) {
  const auto below = batch_size / multiple * multiple;
  const auto above = below + multiple;
  return below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

}  // namespace

void RunSection::verify_dir() const {
  std::error_code error;
  for (std::filesystem::path path = dir; !path.empty(); path = path.parent_path()) {
    const auto kind = std::filesystem::status(path, error).type();
    if (kind == std::filesystem::file_type::directory) return;
    if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::none)
      throw config_error(fmt::format("run.dir: {} is a file, not a directory; choose another",
                                     printable(path.string(), 400)));
    if (path == path.parent_path()) return;
  }
}

std::string batch_size_problem(int64_t batch_size, const std::vector<int64_t>& ranks,
                               const std::string& allowed_by) {
  std::vector<int64_t> fitting, others;
  for (const auto count : ranks) (batch_size % count == 0 ? fitting : others).push_back(count);
  if (others.empty()) return {};
  auto text = fmt::format("data.batch_size: {} is not divisible by {} ranks", batch_size,
                          counts_text(others));
  if (!allowed_by.empty())
    text += fmt::format(", which {} allows ({})", allowed_by,
                        fitting.empty() ? "no allowed number of ranks divides it"
                                        : fmt::format("divisible by {}", counts_text(fitting)));
  if (const auto multiple = common_multiple(ranks))
    text += fmt::format("; nearest valid sizes: {}", nearest_sizes(batch_size, multiple));
  return text +
         " (or set data.batch_remainder: uneven or pad, or data.per_rank_batch_size instead)";
}

}  // namespace lockstep
