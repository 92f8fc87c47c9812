#include "tracking/sinks/metric_series.h"

#include <algorithm>

#include "tracking/log/system_metric.h"

namespace lockstep::tracking {
namespace {

// Removes and returns the number between `before` and `after` in `name`, with one of the
// separators; an empty `after` matches the end of the name. Example: "gpu.0.utilization", "gpu.",
// "." leaves "gpu.utilization".
std::string take_number(std::string& name, std::string_view before, std::string_view after) {
  const auto at = after.empty() ? name.rfind(before) : name.find(before);
  if (at == std::string::npos) return "";
  const auto begin = at + before.size();
  const auto end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  const bool is_whole =
      after.empty() ? end == name.size() : name.compare(end, after.size(), after) == 0;
  if (end == begin || !is_whole) return "";
  auto number = name.substr(begin, end - begin);
  name.erase(begin, end - begin + after.size());
  return number;
}

}  // namespace

MetricSeries metric_series(std::string_view metric) {
  MetricSeries series{.name = std::string(metric), .labels = {{"metric", std::string(metric)}}};
  auto& name = series.name;
  if (is_system_metric(name)) {
    if (const auto node = take_number(name, "/node-", "/"); !node.empty()) {
      series.labels["node"] = node;
      name.replace(name.find("/node-"), 6, "/");
    }
    if (const auto gpu = take_number(name, "gpu.", "."); !gpu.empty()) series.labels["gpu"] = gpu;
  } else if (const auto rank = take_number(name, "/rank-", ""); !rank.empty()) {
    series.labels["rank"] = rank;
    name.erase(name.rfind("/rank-"));
  }
  return series;
}

}  // namespace lockstep::tracking
