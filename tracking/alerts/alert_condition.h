// A user-defined condition on a metric, as written in the run file:
//
//   eval/accuracy < 0.5 after 1000 steps
//   train/loss > 5 for 3 values
//   system/gpu.*.temperature_celsius > 90
//
//   condition = metric comparison number [ "after" count "steps" ] [ "for" count "values" ]
//   metric    = characters other than blanks and < > = !; '*' stands for any of them but '/'
//   comparison = "<" | "<=" | ">" | ">=" | "==" | "!="
//
// The two optional clauses may appear in either order, with units in the singular or plural.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

struct AlertCondition {
  enum class Comparison { Less, LessOrEqual, Greater, GreaterOrEqual, Equal, NotEqual };

  std::string text;    // as written
  std::string metric;  // may hold '*'
  Comparison comparison = Comparison::Less;
  double limit = 0;
  int64_t after_steps = 0;  // values of earlier steps are ignored
  int64_t for_values = 1;   // how many values in a row must satisfy it

  bool matches(std::string_view name) const;
  // False for NaN, also with `!=`.
  bool holds(double value) const;
};

struct ConditionError {
  size_t column = 1;     // where in the text, in bytes counted from 1
  std::string expected;  // what is valid there
};

// Does not throw, whatever the text.
std::variant<AlertCondition, ConditionError> parse_condition(std::string_view text);

}  // namespace lockstep::tracking

namespace lockstep {

template <>
struct ConfigValue<tracking::AlertCondition> {
  static tracking::AlertCondition read(const ConfigNode& node, const std::string& path);
  static Json dump(const tracking::AlertCondition& condition) { return condition.text; }
  static Json schema() { return {{"type", "string"}}; }
};

}  // namespace lockstep
