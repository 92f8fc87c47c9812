#include "trainer/config/profile_config.h"

#include <fmt/format.h>

#include <charconv>

namespace lockstep {
namespace {

std::optional<trainer::StepRange> parse_range(const std::string& text) {
  trainer::StepRange range;
  const auto* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, range.first);
  if (error != std::errc()) return std::nullopt;
  range.last = range.first;
  if (rest == end) return range;
  if (*rest != '-') return std::nullopt;
  const auto last = std::from_chars(rest + 1, end, range.last);
  return last.ec == std::errc() && last.ptr == end ? std::optional(range) : std::nullopt;
}

}  // namespace

trainer::StepRange ConfigValue<trainer::StepRange>::read(const ConfigNode& node,
                                                         const std::string& path) {
  const bool is_text = node.kind == ConfigNode::Kind::Scalar;
  const auto range = is_text ? parse_range(node.scalar) : std::nullopt;
  const auto length = range ? range->last - range->first + 1 : 0;
  if (range && range->first >= 1 && length >= 1 && length <= trainer::kMaxProfiledSteps)
    return *range;
  throw bad_value(node, path,
                  fmt::format("up to {} steps, counted from 1, such as 100-105 or 100",
                              trainer::kMaxProfiledSteps));
}

}  // namespace lockstep

namespace lockstep::trainer {

std::string StepRange::text() const {
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

}  // namespace lockstep::trainer
