#include "catalog/index/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::catalog {
namespace {

constexpr size_t kMaxConfigTextLength = 1000, kMaxConfigKeys = 2000;

void add_leaves(const Json& json, const std::string& path, NameTable& names,
                std::vector<std::pair<uint32_t, FieldValue>>& leaves) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, value] : json.items())
      add_leaves(value, path.empty() ? key : fmt::format("{}.{}", path, key), names, leaves);
    return;
  }
  if (path.empty() || json.is_null() || leaves.size() >= kMaxConfigKeys) return;
  FieldValue value;
  if (json.is_boolean()) {
    value = {.type = FieldValue::Type::Bool, .number = json.get<bool>() ? 1.0 : 0.0};
  } else if (json.is_number()) {
    value = {.type = FieldValue::Type::Number, .number = json.get<double>()};
  } else {
    auto text = json.is_string() ? json.get<std::string>()
                                 : json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kMaxConfigTextLength) text.resize(kMaxConfigTextLength);
    value = {.type = FieldValue::Type::Text, .text = names.add(text)};
  }
  leaves.emplace_back(names.add(path), value);
}

}  // namespace

double MetricTotals::mean() const {
  const auto numbers = count - num_nan;
  return numbers > 0 ? sum / static_cast<double>(numbers) : std::nan("");
}

const MetricTotals* RunSummary::metric(uint32_t name) const {
  for (const auto& source : sources)
    for (const auto& metric : source.metrics)
      if (metric.name == name && metric.count > 0) return &metric;
  return nullptr;
}

const RunInfo& RunSummary::info_of(const SourceSummary* rank) const {
  return rank && !rank->info.id.empty() ? rank->info : written;
}

double RunSummary::started() const {
  double latest = num_ranks == 0 ? written.created : 0;
  for (const auto& source : sources)
    if (!source.is_node) latest = std::fmax(latest, info_of(&source).created);
  return latest;
}

std::vector<std::string> RunSummary::problems() const {
  std::vector<std::string> all = {job_problem, tags.problem, end_problem};
  for (const auto& source : sources) all.push_back(source.problem);
  std::erase(all, "");
  return all;
}

double RunSummary::duration(double now) const {
  const auto last = state == RunState::Running ? now : updated;
  return info.created > 0 && last > info.created ? last - info.created : 0;
}

std::vector<std::pair<uint32_t, FieldValue>> flatten_config(const Json& config, NameTable& names) {
  std::vector<std::pair<uint32_t, FieldValue>> leaves;
  add_leaves(config, "", names, leaves);
  std::ranges::sort(leaves, {}, [](const auto& leaf) { return leaf.first; });
  return leaves;
}

}  // namespace lockstep::catalog
