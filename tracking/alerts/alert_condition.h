// A condition of a user's own on a metric, as the run file writes it:
//
//   eval/accuracy < 0.5 after 1000 steps
//   train/loss > 5 for 3 values
//   system/gpu.*.temperature_celsius > 90
//
//   condition = metric comparison number [ "after" count "steps" ] [ "for" count "values" ]
//   metric    = characters other than blanks and < > = !; '*' stands for any of them but '/'
//   comparison = "<" | "<=" | ">" | ">=" | "==" | "!="
//
// The two additions may come in either order, and their units in the singular.
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
  int64_t after_steps = 0;  // values of earlier steps are not looked at
  int64_t for_values = 1;   // how many in a row must be so

  bool matches(std::string_view name) const;
  // False for NaN, which is neither less nor greater nor different.
  bool holds(double value) const;
};

struct ConditionError {
  size_t column = 1;     // where in the text, in bytes counted from 1
  std::string expected;  // what is valid there
};

// Never throws for any text.
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

namespace lockstep::tracking {}  // namespace lockstep::tracking
