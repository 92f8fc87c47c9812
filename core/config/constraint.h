// What a field of a config struct demands of its value beyond the type: limits, choices, presence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/config_value.h"

namespace lockstep {

// Written with the factories below. Limits hold for numbers and choices for texts; of a list they
// hold for each item, and an option that is null violates none.
struct Constraint {
  std::optional<double> minimum, exclusive_minimum, maximum, exclusive_maximum;
  std::vector<std::string> choices;
  bool required = false;

  void merge(const Constraint& other);
  // Throws Config when the value (as dumped) violates this.
  void verify(const Json& value, const ConfigNode& node, const std::string& path) const;
  void add_to_schema(Json& schema) const;
};

inline Constraint at_least(double minimum) { return {.minimum = minimum}; }
inline Constraint above(double minimum) { return {.exclusive_minimum = minimum}; }
inline Constraint at_most(double maximum) { return {.maximum = maximum}; }
inline Constraint below(double maximum) { return {.exclusive_maximum = maximum}; }
inline Constraint one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
inline Constraint required() { return {.required = true}; }

}  // namespace lockstep
