// The fields of a run by which the run list filters, sorts and groups, and which it shows: `state`,
// `config.optimizer.lr`, `eval/accuracy`, `min(train/loss)`. See docs/dashboard_api.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "catalog/index/run_summary.h"

namespace lockstep::dashboard {

// One value of a field; std::monostate: none.
using FieldContent = std::variant<std::monostate, double, bool, std::string>;

class RunField {
 public:
  // nullopt if `text` is not the name of a field.
  static std::optional<RunField> parse(std::string_view text);

  // Empty if the run has no value. Several values only for `tag`. Thread: any.
  std::vector<FieldContent> values(const catalog::RunSummary& run, const catalog::NameTable& names,
                                   double now) const;
  // The first of values(), or std::monostate.
  FieldContent value(const catalog::RunSummary& run, const catalog::NameTable& names,
                     double now) const;

  // Whether its values are unix times, or durations in seconds.
  bool is_time() const { return kind_ == Kind::Name && (name_ == "created" || name_ == "updated"); }
  bool is_duration() const { return kind_ == Kind::Name && name_ == "duration"; }
  const std::string& text() const { return text_; }

 private:
  enum class Kind { Name, Config, Metric };

  FieldContent plain_value(const catalog::RunSummary& run, double now) const;
  FieldContent config_value(const catalog::RunSummary& run, const catalog::NameTable& names) const;
  FieldContent metric_value(const catalog::RunSummary& run, const catalog::NameTable& names) const;

  Kind kind_ = Kind::Name;
  std::string text_, name_, aggregate_ = "last";
};

// Whether `word` is an aggregate of a metric: last, min, max, mean, count, step.
bool is_aggregate(std::string_view word);

// The fields other than metrics and configuration.
const std::vector<std::string>& plain_fields();

}  // namespace lockstep::dashboard
