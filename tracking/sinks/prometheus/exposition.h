// The text that Prometheus scrapes (text exposition format 0.0.4).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tracking {

using PrometheusLabels = std::map<std::string, std::string>;

// A metric of ours as one of Prometheus': a family per metric, "lockstep_" and the name with "_"
// for everything that is no ASCII letter or digit. What ours say inside their name is a label
// there:
//   train/loss/rank-3                    lockstep_train_loss{rank="3"}
//   system/node-1/gpu.0.utilization      lockstep_system_gpu_utilization{node="1",gpu="0"}
// The label "metric" has the name as it is, so that two names that look alike there stay two
// series.
struct PrometheusSeries {
  std::string family;
  PrometheusLabels labels;
};
PrometheusSeries prometheus_series(std::string_view metric);

// One entry in the list of runs.
struct PrometheusEntry {
  PrometheusLabels labels;                            // of all its series: run, rank
  PrometheusLabels info;                              // what else there is to know of the run
  std::map<std::string, double, std::less<>> values;  // by our names, the last ones
  int64_t step = 0;
  double time = 0;  // of the last record, unix seconds
};

// Every value as a gauge, and lockstep_run_info, lockstep_step and
// lockstep_last_record_timestamp_seconds.
std::string prometheus_text(const std::vector<PrometheusEntry>& entries);

}  // namespace lockstep::tracking
