// `train.profile`: which steps are recorded operator by operator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"

namespace lockstep::trainer {

// Steps `first` to `last`, both included, counted from 1: "100-105", or "100" for one.
struct StepRange {
  int64_t first = 1, last = 1;

  std::string text() const;
  bool operator==(const StepRange&) const = default;
};

// A trace has about 1 KiB per operator.
constexpr int64_t kMaxProfiledSteps = 100;

struct ProfileConfig {
  std::optional<StepRange> steps;
  std::vector<int64_t> ranks = {0};
};

}  // namespace lockstep::trainer

namespace lockstep {

template <>
struct ConfigValue<trainer::StepRange> {
  static trainer::StepRange read(const ConfigNode& node, const std::string& path);
  static Json dump(const trainer::StepRange& range) { return range.text(); }
  // In YAML, one step is an integer.
  static Json schema() {
    return {{"anyOf", Json::array({Json{{"type", "integer"}, {"minimum", 1}},
                                   Json{{"type", "string"}, {"pattern", "^[0-9]+(-[0-9]+)?$"}}})}};
  }
};

}  // namespace lockstep

namespace lockstep::trainer {

template <class V>
void fields(V& v, ProfileConfig& c) {
  v("steps", c.steps,
    "steps whose operators are recorded with their times, e.g. 100-105, as profiles/*.json in the "
    "run directory, for Perfetto (ui.perfetto.dev); these steps take longer (empty: none)");
  v("ranks", c.ranks, "the ranks that record", at_least(0), needs("train.profile.steps"));
}

}  // namespace lockstep::trainer
