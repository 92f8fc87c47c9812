#include "dashboard/filter/run_field.h"

#include <algorithm>

namespace lockstep::dashboard {
namespace {

constexpr std::string_view kConfigPrefix = "config.", kMetricPrefix = "metric.";

FieldContent text_content(const std::optional<std::string>& text) {
  return text && !text->empty() ? FieldContent(*text) : FieldContent();
}

template <class Number>
FieldContent number_content(const std::optional<Number>& number) {
  return number ? FieldContent(static_cast<double>(*number)) : FieldContent();
}

FieldContent content_of(const catalog::FieldValue& value, const catalog::NameTable& names) {
  switch (value.type) {
    case catalog::FieldValue::Type::Number: return value.number;
    case catalog::FieldValue::Type::Bool: return value.number != 0;
    case catalog::FieldValue::Type::Text: return names.text(value.text);
    case catalog::FieldValue::Type::None: break;
  }
  return {};
}

}  // namespace

bool is_aggregate(std::string_view word) {
  constexpr std::string_view kAggregates[] = {"last", "min", "max", "mean", "count", "step"};
  return std::ranges::find(kAggregates, word) != std::end(kAggregates);
}

const std::vector<std::string>& plain_fields() {
  static const std::vector<std::string> names = {
      "id",         "name",      "group",  "job_type", "state",     "host",    "note",
      "tag",        "exit",      "signal", "reason",   "created",   "updated", "duration",
      "world_size", "num_ranks", "step",   "epoch",    "num_alerts"};
  return names;
}

std::optional<RunField> RunField::parse(std::string_view text) {
  RunField field;
  field.text_ = text;
  if (text.starts_with(kConfigPrefix) && text.size() > kConfigPrefix.size()) {
    field.kind_ = Kind::Config;
    field.name_ = text.substr(kConfigPrefix.size());
    return field;
  }
  const auto open = text.find('(');
  if (open != std::string_view::npos && text.ends_with(')') && is_aggregate(text.substr(0, open))) {
    field.kind_ = Kind::Metric;
    field.aggregate_ = text.substr(0, open);
    field.name_ = text.substr(open + 1, text.size() - open - 2);
  } else if (text.starts_with(kMetricPrefix) && text.size() > kMetricPrefix.size()) {
    field.kind_ = Kind::Metric;
    field.name_ = text.substr(kMetricPrefix.size());
  } else if (text.find('/') != std::string_view::npos) {
    field.kind_ = Kind::Metric;
    field.name_ = text;
  } else {
    if (std::ranges::find(plain_fields(), text) == plain_fields().end()) return std::nullopt;
    field.name_ = text;
  }
  return field.name_.empty() ? std::nullopt : std::optional(field);
}

FieldContent RunField::plain_value(const catalog::RunSummary& run, double now) const {
  const auto ended = run.end && run.state != RunState::Running && run.state != RunState::Lost;
  if (name_ == "id") return run.id;
  if (name_ == "name") return run.info.name;
  if (name_ == "group") return text_content(run.info.group);
  if (name_ == "job_type") return text_content(run.info.job_type);
  if (name_ == "state") return std::string(state_name(run.state));
  if (name_ == "host") return text_content(run.info.host);
  if (name_ == "note") return text_content(run.tags.note);
  if (name_ == "exit") return ended ? FieldContent(double(run.end->exit_code)) : FieldContent();
  if (name_ == "signal") return ended ? number_content(run.end->signal) : FieldContent();
  if (name_ == "reason") return ended ? text_content(run.end->reason) : FieldContent();
  if (name_ == "created") return run.info.created;
  if (name_ == "updated") return run.updated;
  if (name_ == "duration") return run.duration(now);
  if (name_ == "world_size") return static_cast<double>(run.info.world_size);
  if (name_ == "num_ranks") return static_cast<double>(run.num_ranks);
  if (name_ == "step") return static_cast<double>(run.step);
  if (name_ == "epoch") return run.epoch;
  if (name_ == "num_alerts") return static_cast<double>(run.num_alerts);
  return {};
}

FieldContent RunField::config_value(const catalog::RunSummary& run,
                                    const catalog::NameTable& names) const {
  const auto number = names.find(name_);
  const auto it =
      std::ranges::lower_bound(run.config, number, {}, [](const auto& leaf) { return leaf.first; });
  if (it == run.config.end() || it->first != number) return {};
  return content_of(it->second, names);
}

FieldContent RunField::metric_value(const catalog::RunSummary& run,
                                    const catalog::NameTable& names) const {
  const auto number = names.find(name_);
  if (number == catalog::NameTable::kNone) return {};
  if (aggregate_ == "last")
    for (const auto& source : run.sources)
      for (const auto& [name, value] : source.summary)
        if (name == number) return value;
  const auto* metric = run.metric(number);
  if (!metric) return {};
  if (aggregate_ == "min") return metric->min;
  if (aggregate_ == "max") return metric->max;
  if (aggregate_ == "mean") return metric->mean();
  if (aggregate_ == "count") return static_cast<double>(metric->count);
  if (aggregate_ == "step") return static_cast<double>(metric->step);
  return metric->last;
}

FieldContent RunField::value(const catalog::RunSummary& run, const catalog::NameTable& names,
                             double now) const {
  if (kind_ == Kind::Config) return config_value(run, names);
  if (kind_ == Kind::Metric) return metric_value(run, names);
  if (name_ == "tag") return run.tags.tags.empty() ? FieldContent() : run.tags.tags.front();
  return plain_value(run, now);
}

std::vector<FieldContent> RunField::values(const catalog::RunSummary& run,
                                           const catalog::NameTable& names, double now) const {
  if (kind_ == Kind::Name && name_ == "tag") return {run.tags.tags.begin(), run.tags.tags.end()};
  auto content = value(run, names, now);
  if (std::holds_alternative<std::monostate>(content)) return {};
  return {std::move(content)};
}

}  // namespace lockstep::dashboard
