#include "lockstep/config_fields.h"

#include <fmt/format.h>

namespace lockstep {

void Constraint::merge(const Constraint& other) {
  if (other.minimum) minimum = other.minimum;
  if (other.exclusive_minimum) exclusive_minimum = other.exclusive_minimum;
  if (other.maximum) maximum = other.maximum;
  if (other.exclusive_maximum) exclusive_maximum = other.exclusive_maximum;
  required = required || other.required;
  needs.insert(needs.end(), other.needs.begin(), other.needs.end());
}

void Constraint::verify(const Json& value, const ConfigNode& node, const std::string& path) const {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      verify(value[i], node.items.at(i), fmt::format("{}[{}]", path, i));
    return;
  }
  if (!value.is_number()) return;
  const auto number = value.get<double>();
  if (minimum && number < *minimum)
    throw bad_value(node, path, fmt::format("at least {}", *minimum));
  if (exclusive_minimum && number <= *exclusive_minimum)
    throw bad_value(node, path, fmt::format("more than {}", *exclusive_minimum));
  if (maximum && number > *maximum)
    throw bad_value(node, path, fmt::format("at most {}", *maximum));
  if (exclusive_maximum && number >= *exclusive_maximum)
    throw bad_value(node, path, fmt::format("less than {}", *exclusive_maximum));
}

void Constraint::add_to_schema(Json& schema) const {
  // Limits apply to the value itself, not to the enclosing list or optional.
  auto* target = &schema;
  if (schema.contains("items")) target = &schema["items"];
  if (schema.contains("anyOf")) target = &schema["anyOf"][0];
  if (minimum) (*target)["minimum"] = *minimum;
  if (exclusive_minimum) (*target)["exclusiveMinimum"] = *exclusive_minimum;
  if (maximum) (*target)["maximum"] = *maximum;
  if (exclusive_maximum) (*target)["exclusiveMaximum"] = *exclusive_maximum;
}

}  // namespace lockstep
