#pragma once

#include "lockstep/config_value.h"

namespace lockstep::trainer {

// Whether a smaller or a larger value of a metric is better.
enum class MetricMode { Min, Max };
constexpr auto choices(MetricMode) { return std::array{"min", "max"}; }

}  // namespace lockstep::trainer
