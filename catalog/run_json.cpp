#include "catalog/run_json.h"

#include "catalog/json_text.h"

namespace lockstep::catalog {
namespace {

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json(nullptr);
}

}  // namespace

Json run_json(const RunInfo& info, const RunEnd& end) {
  return {{"id", info.id},
          {"name", info.name},
          {"group", text_or_null(info.group)},
          {"job_type", text_or_null(info.job_type)},
          {"state", state_name(end.state)},
          {"exit", has_ended(end.state) ? Json(end.exit_code) : Json(nullptr)}};
}

Json totals_json(const MetricTotals& metric) {
  return {{"last", number_value(metric.last)},
          {"min", number_value(metric.min)},
          {"max", number_value(metric.max)},
          {"step", metric.step},
          {"count", metric.count}};
}

}  // namespace lockstep::catalog
