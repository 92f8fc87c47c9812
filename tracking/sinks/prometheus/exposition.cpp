#include "tracking/sinks/prometheus/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/printable.h"

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

std::string label_value(const std::string& text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      value += "\\n";
    } else {
      if (text[i] == '\\' || text[i] == '"') value += '\\';
      value += text[i];
    }
  }
  for (auto bad = find_invalid_utf8(value); bad != std::string::npos;
       bad = find_invalid_utf8(value))
    value[bad] = '?';
  return value;
}

std::string sample_line(const std::string& family, const PrometheusLabels& labels, double value) {
  std::string list;
  for (const auto& [name, text] : labels)
    list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", name, label_value(text));
  const auto number = std::isnan(value)   ? "NaN"
                      : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                          : fmt::format("{}", value);
  return fmt::format("{}{{{}}} {}\n", family, list, number);
}

}  // namespace

PrometheusSeries prometheus_series(std::string_view metric) {
  PrometheusSeries series{.labels = {{"metric", std::string(metric)}}};
  std::string name(metric);
  if (name.starts_with("system/")) {
    if (const auto node = take_number(name, "/node-", "/"); !node.empty()) {
      series.labels["node"] = node;
      name.replace(name.find("/node-"), 6, "/");
    }
    if (const auto gpu = take_number(name, "gpu.", "."); !gpu.empty()) series.labels["gpu"] = gpu;
  } else if (const auto rank = take_number(name, "/rank-", ""); !rank.empty()) {
    series.labels["rank"] = rank;
    name.erase(name.rfind("/rank-"));
  }
  series.family = "lockstep_";
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    series.family += plain ? c : '_';
  }
  return series;
}

std::string prometheus_text(const std::vector<PrometheusEntry>& entries) {
  std::map<std::string, std::string> families;  // samples are grouped by family
  for (const auto& entry : entries) {
    const auto add = [&](const std::string& family, const PrometheusLabels& more, double value) {
      auto labels = more;
      labels.insert(entry.labels.begin(), entry.labels.end());
      families[family] += sample_line(family, labels, value);
    };
    add("lockstep_run_info", entry.info, 1);
    add("lockstep_step", {}, static_cast<double>(entry.step));
    add("lockstep_last_record_timestamp_seconds", {}, entry.time);
    for (const auto& [metric, value] : entry.values) {
      const auto series = prometheus_series(metric);
      add(series.family, series.labels, value);
    }
  }
  std::string text;
  for (const auto& [family, samples] : families)
    text += fmt::format("# TYPE {} gauge\n{}", family, samples);
  return text;
}

}  // namespace lockstep::tracking
