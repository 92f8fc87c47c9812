#include "launch/options/tee_spec.h"

#include <fmt/format.h>

#include <optional>

#include "core/number_text.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

std::optional<int> to_number(const std::string& text) {
  const auto value = parse_number<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

Error bad_spec(const std::string& option, const std::string& text) {
  return config_error(
      fmt::format("{} {}: expected 0 (nothing), 1 (stdout), 2 (stderr), 3 (both), or such a "
                  "number for each local rank: 0:3,1:2",
                  option, text));
}

Error no_such_local_rank(const std::string& option, const std::string& text, int local_rank,
                         int num_workers) {
  return config_error(fmt::format("{} {}: there is no local rank {}; valid: 0 to {}", option, text,
                                  local_rank, num_workers - 1));
}

}  // namespace

TeeSpec TeeSpec::parse(const std::string& option, const std::string& text, int num_workers) {
  TeeSpec spec;
  if (text.find(':') == std::string::npos) {
    const auto bits = to_number(text);
    if (!bits || *bits > 3) throw bad_spec(option, text);
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
    if (!local_rank || !bits || *bits > 3) throw bad_spec(option, text);
    if (*local_rank >= num_workers)
      throw no_such_local_rank(option, text, *local_rank, num_workers);
    spec.by_local_rank_[*local_rank] = *bits;
    begin = comma + 1;
  }
  return spec;
}

TeeSpec TeeSpec::inverted(int num_workers) const {
  TeeSpec spec;
  spec.all_ = 0;
  for (int local_rank = 0; local_rank < num_workers; ++local_rank)
    spec.by_local_rank_[local_rank] = 3 & ~bits_of(local_rank);
  return spec;
}

TeeSpec TeeSpec::limited_to(const std::string& option, const std::string& list,
                            int num_workers) const {
  TeeSpec spec;
  spec.all_ = 0;
  for (size_t begin = 0; begin <= list.size();) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const auto local_rank = to_number(list.substr(begin, comma - begin));
    if (!local_rank)
      throw config_error(fmt::format("{} {}: expected local ranks as in 0,2", option, list));
    if (*local_rank >= num_workers)
      throw no_such_local_rank(option, list, *local_rank, num_workers);
    spec.by_local_rank_[*local_rank] = bits_of(*local_rank);
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

}  // namespace lockstep::launch
