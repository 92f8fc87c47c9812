// Splits the names of metrics for systems that store labels separately.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lockstep::tracking {

struct MetricSeries {
  std::string name;
  std::map<std::string, std::string> labels;
};

// Ranks, nodes and GPUs in the name become labels:
//   train/loss/rank-3                    train/loss {rank="3"}
//   system/node-1/gpu.0.utilization      system/gpu.utilization {node="1", gpu="0"}
// The label "metric" holds the original name, so that names that only differ in characters that a
// system replaces remain separate series.
MetricSeries metric_series(std::string_view metric);

}  // namespace lockstep::tracking
