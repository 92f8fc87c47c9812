#include "tracking/sinks/prometheus/exposition.h"

#include <fmt/format.h>

#include <cmath>

#include "core/printable.h"
#include "tracking/sinks/metric_series.h"

namespace lockstep::tracking {
namespace {

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
  auto series = metric_series(metric);
  std::string family = "lockstep_";
  for (const char c : series.name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    family += plain ? c : '_';
  }
  return {.family = std::move(family), .labels = std::move(series.labels)};
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
