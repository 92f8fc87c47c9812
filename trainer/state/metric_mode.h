#pragma once

#include "core/config/config_choice.h"

namespace lockstep {

// Whether a smaller or a larger value of a metric is better.
enum class MetricMode { Min, Max };
constexpr auto choices(MetricMode) {
  return choice_names<MetricMode>({{MetricMode::Min, "min"}, {MetricMode::Max, "max"}});
}

}  // namespace lockstep
