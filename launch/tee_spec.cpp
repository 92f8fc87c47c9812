#include "launch/tee_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "core/error.h"

namespace lockstep {
namespace {

std::optional<int> to_number(const std::string& text) {
  int value = 0;
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end || value < 0) return std::nullopt;
  return value;
}

Error bad_spec(const std::string& text) {
  return config_error(
      fmt::format("--tee {}: expected 0 (nothing), 1 (stdout), 2 (stderr), 3 (both), or such a "
                  "number for each local rank: 0:3,1:2",
                  text));
}

}  // namespace

TeeSpec TeeSpec::parse(const std::string& text, int num_workers) {
  TeeSpec spec;
  if (text.find(':') == std::string::npos) {
    const auto bits = to_number(text);
    if (!bits || *bits > 3) throw bad_spec(text);
    spec.all_ = *bits;
    return spec;
  }
  spec.all_ = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    const auto item = text.substr(begin, comma - begin);
    const auto colon = std::min(item.find(':'), item.size());
    const auto local_rank = to_number(item.substr(0, colon));
    const auto bits = colon < item.size() ? to_number(item.substr(colon + 1)) : std::nullopt;
    if (!local_rank || !bits || *bits > 3) throw bad_spec(text);
    if (*local_rank >= num_workers)
      throw config_error(fmt::format("--tee {}: there is no local rank {}; valid: 0 to {}", text,
                                     *local_rank, num_workers - 1));
    spec.by_local_rank_[*local_rank] = *bits;
    begin = comma + 1;
  }
  return spec;
}

bool TeeSpec::shows_everything(int num_workers) const {
  for (int local_rank = 0; local_rank < num_workers; ++local_rank)
    if (bits_of(local_rank) != 3) return false;
  return true;
}

int TeeSpec::bits_of(int local_rank) const {
  const auto it = by_local_rank_.find(local_rank);
  return it == by_local_rank_.end() ? all_ : it->second;
}

}  // namespace lockstep
