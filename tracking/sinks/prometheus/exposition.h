// The Prometheus text exposition format 0.0.4.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tracking {

using PrometheusLabels = std::map<std::string, std::string>;

// A metric's Prometheus family and labels (tracking/sinks/metric_series.h). The family is
// "lockstep_" and the name, with "_" for every character that is not an ASCII letter or digit.
struct PrometheusSeries {
  std::string family;
  PrometheusLabels labels;
};
PrometheusSeries prometheus_series(std::string_view metric);

// One entry in the list of runs.
struct PrometheusEntry {
  PrometheusLabels labels;                            // of all series of the entry: run, rank
  PrometheusLabels info;                              // further labels of lockstep_run_info
  std::map<std::string, double, std::less<>> values;  // the last value of each metric
  int64_t step = 0;
  double time = 0;  // of the last record, unix seconds
};

// Formats every value as a gauge, plus lockstep_run_info, lockstep_step and
// lockstep_last_record_timestamp_seconds.
std::string prometheus_text(const std::vector<PrometheusEntry>& entries);

}  // namespace lockstep::tracking
