// The fields of a run that the list can filter, sort, group and show by: `state`,
// `config.optimizer.lr`, `eval/accuracy`, `min(train/loss)`. docs/dashboard_api.md has the whole
// list.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "catalog/index/run_summary.h"

namespace lockstep::dashboard {

// What a run has in a field. Several texts only for `tag`.
using FieldContent = std::variant<std::monostate, double, bool, std::string>;

class RunField {
 public:
  // nullopt when `text` can be no field's name.
  static std::optional<RunField> parse(std::string_view text);

  // Empty where the run does not have it. Thread: any.
  std::vector<FieldContent> values(const catalog::RunSummary& run, const catalog::NameTable& names,
                                   double now) const;
  // The first of values().
  FieldContent value(const catalog::RunSummary& run, const catalog::NameTable& names,
                     double now) const;

  // Whether its numbers are times of day, or lengths of time.
  bool is_time() const { return kind_ == Kind::Name && (name_ == "created" || name_ == "updated"); }
  bool is_duration() const { return kind_ == Kind::Name && name_ == "duration"; }
  const std::string& text() const { return text_; }

 private:
  enum class Kind { Name, Config, Metric };

  FieldContent named(const catalog::RunSummary& run, double now) const;
  FieldContent configured(const catalog::RunSummary& run, const catalog::NameTable& names) const;
  FieldContent measured(const catalog::RunSummary& run, const catalog::NameTable& names) const;

  Kind kind_ = Kind::Name;
  std::string text_, name_, total_ = "last";
};

// Whether it is what a metric has several values condensed to: last, min, max, mean, count, step.
bool is_total(std::string_view word);

// The names that are no metric's and no config's.
const std::vector<std::string>& plain_fields();

}  // namespace lockstep::dashboard
