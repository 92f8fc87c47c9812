#include "sweep/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/config/nearest_name.h"

namespace lockstep::sweep {
namespace {

bool is_below(const std::string& key, const std::string& parent) {
  return key.starts_with(parent + ".");
}

// What follows the parameter's key in a condition's.
std::string rest_of(const std::string& key, const Parameter& parameter) {
  return key == parameter.key ? "" : key.substr(parameter.key.size() + 1);
}

// Whether a condition on `parent` holds where that has `value`.
bool holds(const Condition& condition, const Parameter& parent, const Json& value) {
  const auto* member = member_of(value, rest_of(condition.key, parent));
  return member && std::ranges::count(condition.values, *member) > 0;
}

}  // namespace

const Json* member_of(const Json& value, const std::string& path) {
  const auto* at = &value;
  for (size_t begin = 0; begin < path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    const auto name = path.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &at->at(name);
    begin = end + 1;
  }
  return at;
}

int64_t Parameter::count() const {
  if (is_choice()) return static_cast<int64_t>(choices.size());
  return static_cast<int64_t>(high - low) / step + 1;
}

Json Parameter::at(double unit) const {
  const auto index = [&](int64_t n) {
    return std::clamp<int64_t>(static_cast<int64_t>(unit * static_cast<double>(n)), 0, n - 1);
  };
  switch (kind) {
    case Kind::Choice: return choices[index(count())];
    case Kind::Uniform: return std::clamp(low + unit * (high - low), low, high);
    case Kind::LogUniform:
      return std::clamp(std::exp(std::log(low) + unit * (std::log(high) - std::log(low))), low,
                        high);
    case Kind::Int: return static_cast<int64_t>(low) + index(count()) * step;
    case Kind::LogInt: {
      const auto begin = std::log(low - 0.5), end = std::log(high + 0.5);
      const auto value = std::exp(begin + unit * (end - begin));
      return static_cast<int64_t>(std::clamp(std::round(value), low, high));
    }
  }
  return nullptr;
}

double Parameter::unit_of(const Json& value) const {
  const auto share = [&](double place) { return (place + 0.5) / static_cast<double>(count()); };
  if (is_choice()) return share(static_cast<double>(place_of(value)));
  const auto number = value.get<double>();
  switch (kind) {
    case Kind::Int: return share((number - low) / static_cast<double>(step));
    case Kind::LogInt: return std::log(number / (low - 0.5)) / std::log((high + 0.5) / (low - 0.5));
    case Kind::LogUniform: return std::log(number / low) / std::log(high / low);
    default: return (number - low) / (high - low);
  }
}

size_t Parameter::place_of(const Json& value) const {
  const auto it = std::ranges::find(choices, value);
  if (it == choices.end())
    throw config_error(fmt::format("{}: {} is not one of the choices", key, value.dump()));
  return static_cast<size_t>(it - choices.begin());
}

const Parameter* Space::find(const std::string& key) const {
  const auto it = std::ranges::find(parameters, key, &Parameter::key);
  return it == parameters.end() ? nullptr : &*it;
}

// The parameter that a condition on `key` depends on.
static const Parameter* parent_of(const Space& space, const std::string& key) {
  if (const auto* exact = space.find(key)) return exact;
  const Parameter* parent = nullptr;
  for (const auto& parameter : space.parameters)
    if (is_below(key, parameter.key) && (!parent || is_below(parameter.key, parent->key)))
      parent = &parameter;
  return parent;
}

bool Space::is_active(const Parameter& parameter, const Point& point) const {
  return std::ranges::all_of(parameter.when, [&](const Condition& condition) {
    const auto* parent = parent_of(*this, condition.key);
    return parent && point.contains(parent->key) &&
           holds(condition, *parent, point.at(parent->key));
  });
}

Point Space::at(const std::vector<double>& units) const {
  Point point = Json::object();
  for (size_t i = 0; i < units.size(); ++i)
    if (is_active(parameters[i], point)) point[parameters[i].key] = parameters[i].at(units[i]);
  return point;
}

std::vector<double> Space::units_of(const Point& point) const {
  std::vector<double> units;
  for (const auto& parameter : parameters)
    units.push_back(point.contains(parameter.key) ? parameter.unit_of(point.at(parameter.key))
                                                  : 0.5);
  return units;
}

void Space::verify(const Point& point) const {
  std::vector<std::string> keys;
  for (const auto& parameter : parameters) keys.push_back(parameter.key);
  for (const auto& [key, value] : point.items())
    if (!find(key))
      throw config_error(fmt::format("'{}' is not in the space{}", key, suggest(key, keys)));
  for (const auto& parameter : parameters) {
    const bool is_given = point.contains(parameter.key);
    if (is_given != is_active(parameter, point))
      throw config_error(
          is_given ? fmt::format("{} is set, but its condition does not hold", parameter.key)
                   : fmt::format("{} is missing", parameter.key));
    if (!is_given) continue;
    const auto& value = point.at(parameter.key);
    if (parameter.is_choice()) {
      parameter.place_of(value);
      continue;
    }
    const bool fits = value.is_number() && (!parameter.is_integer() || value.is_number_integer());
    if (!fits || !(value.get<double>() >= parameter.low && value.get<double>() <= parameter.high))
      throw config_error(fmt::format("{}: {} is not {} from {} to {}", parameter.key, value.dump(),
                                     parameter.is_integer() ? "an integer" : "a number",
                                     parameter.low, parameter.high));
  }
}

Json to_json(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::Null: return nullptr;
    case ConfigNode::Kind::List: {
      auto list = Json::array();
      for (const auto& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case ConfigNode::Kind::Map: {
      auto map = Json::object();
      for (const auto& [key, value] : node.members) map[key] = to_json(value);
      return map;
    }
    case ConfigNode::Kind::Scalar: break;
  }
  if (node.quoted) return node.scalar;
  const auto as = [&]<class T>(T) -> Json {
    try {
      return ConfigValue<T>::read(node, "");
    } catch (const Error&) {
      return nullptr;
    }
  };
  for (const auto& value : {as(false), as(int64_t{0}), as(0.0)})
    if (!value.is_null()) return value;
  return node.scalar;
}

std::vector<std::string> overrides_of(const Point& point) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : point.items()) keys.push_back(key);
  std::ranges::stable_sort(keys, {}, [](const auto& key) { return std::ranges::count(key, '.'); });
  std::vector<std::string> overrides;
  for (const auto& key : keys) overrides.push_back(key + "=" + point.at(key).dump());
  return overrides;
}

// --- reading ---

static std::vector<double> read_bounds(const ConfigNode& node, const std::string& path) {
  const auto bounds = ConfigValue<std::vector<double>>::read(node, path);
  if (bounds.size() != 2 || !(bounds[0] < bounds[1]))
    throw bad_value(node, path, "[LOW, HIGH] with LOW below HIGH");
  return bounds;
}

static void read_kind(const std::string& name, const ConfigNode& node, const std::string& path,
                      Parameter& parameter) {
  using Kind = Parameter::Kind;
  if (name == "choice") {
    parameter.kind = Kind::Choice;
    if (node.kind != ConfigNode::Kind::List || node.items.empty())
      throw bad_value(node, path, "a list of values");
    for (const auto& item : node.items) {
      parameter.choices.push_back(to_json(item));
      if (std::ranges::count(parameter.choices, parameter.choices.back()) > 1)
        throw bad_value(item, path, "each value once");
    }
    return;
  }
  const auto bounds = read_bounds(node, path);
  parameter.low = bounds[0], parameter.high = bounds[1];
  parameter.kind = name == "uniform"       ? Kind::Uniform
                   : name == "log_uniform" ? Kind::LogUniform
                   : name == "int"         ? Kind::Int
                                           : Kind::LogInt;
  if (parameter.is_log() && !(parameter.low > 0))
    throw bad_value(node, path, "bounds above 0 for a logarithmic range");
  if (parameter.is_integer())
    for (const auto& item : node.items) ConfigValue<int64_t>::read(item, path);
}

static int64_t read_count(const ConfigNode& node, const std::string& path) {
  const auto value = ConfigValue<int64_t>::read(node, path);
  if (value < 1) throw bad_value(node, path, "at least 1");
  return value;
}

static std::vector<Condition> read_conditions(const ConfigNode& node, const std::string& path) {
  if (node.kind != ConfigNode::Kind::Map) throw bad_value(node, path, "a map of parameter: value");
  std::vector<Condition> conditions;
  for (const auto& [key, value] : node.members) {
    auto json = to_json(value);
    if (json.is_array())
      conditions.push_back({key, {json.begin(), json.end()}});
    else
      conditions.push_back({key, {json}});
  }
  return conditions;
}

static Parameter read_parameter(const std::string& key, const ConfigNode& node,
                                const std::string& path) {
  static const std::vector<std::string> kKinds = {"choice", "uniform", "log_uniform", "int",
                                                  "log_int"};
  const std::string kinds = "one of choice, uniform, log_uniform, int, log_int";
  if (node.kind != ConfigNode::Kind::Map) throw bad_value(node, path, "a map with " + kinds);
  Parameter parameter{.key = key, .origin = node.origin};
  int num_kinds = 0;
  for (const auto& [name, value] : node.members) {
    const auto inner = fmt::format("{}.{}", path, name);
    if (std::ranges::count(kKinds, name)) {
      ++num_kinds;
      read_kind(name, value, inner, parameter);
    } else if (name == "step") {
      parameter.step = read_count(value, inner);
    } else if (name == "points") {
      parameter.points = read_count(value, inner);
    } else if (name == "when") {
      parameter.when = read_conditions(value, inner);
    } else {
      auto valid = kKinds;
      valid.insert(valid.end(), {"step", "points", "when"});
      throw config_error(fmt::format("{}: {}: unknown key '{}'{}", value.origin, path, name,
                                     suggest(name, valid)));
    }
  }
  if (num_kinds != 1) throw bad_value(node, path, "exactly " + kinds);
  if (node.find("step") && parameter.kind != Parameter::Kind::Int)
    throw bad_value(*node.find("step"), path + ".step", "no step except with int");
  if (parameter.kind == Parameter::Kind::Int)
    parameter.high = parameter.low + static_cast<double>((parameter.count() - 1) * parameter.step);
  return parameter;
}

// Throws if a condition never holds.
static void verify_condition(const Space& space, const Parameter& parameter,
                             const Condition& condition) {
  const auto problem = [&](const std::string& what) {
    return config_error(
        fmt::format("{}: space.{}.when: {}", parameter.origin, parameter.key, what));
  };
  std::vector<std::string> keys;
  for (const auto& other : space.parameters) keys.push_back(other.key);
  const auto* parent = parent_of(space, condition.key);
  if (!parent)
    throw problem(
        fmt::format("'{}' is not in the space{}", condition.key, suggest(condition.key, keys)));
  if (!parent->is_choice())
    throw problem(fmt::format("{} is not a choice: a condition needs one", parent->key));
  const auto rest = rest_of(condition.key, *parent);
  for (const auto& value : condition.values)
    if (std::ranges::none_of(parent->choices, [&](const Json& choice) {
          const auto* member = member_of(choice, rest);
          return member && *member == value;
        }))
      throw problem(fmt::format("{} is never {}", condition.key, value.dump()));
}

// Throws if `parameter` is never active: because its conditions, or those of the parameters that it
// depends on, exclude each other.
static void verify_active_somewhere(const Space& space, const Parameter& parameter) {
  struct Need {
    const Parameter *of, *parent;
    const Condition* condition;
  };
  std::vector<Need> needs;
  std::vector<const Parameter*> involved = {&parameter};
  for (size_t i = 0; i < involved.size(); ++i)
    for (const auto& condition : involved[i]->when) {
      const auto* parent = parent_of(space, condition.key);
      needs.push_back({involved[i], parent, &condition});
      if (std::ranges::count(involved, parent) == 0) involved.push_back(parent);
    }
  for (const auto* parent : involved) {
    auto on_it = needs;
    std::erase_if(on_it, [&](const Need& need) { return need.parent != parent; });
    const auto fits = [&](const Json& choice) {
      return std::ranges::all_of(
          on_it, [&](const Need& need) { return holds(*need.condition, *parent, choice); });
    };
    if (on_it.empty() || std::ranges::any_of(parent->choices, fits)) continue;
    std::string text;
    for (const auto& [of, _, condition] : on_it)
      text += fmt::format("{}{} needs {}: {}", text.empty() ? "" : ", ", of->key, condition->key,
                          condition->values.size() == 1 ? condition->values.front().dump()
                                                        : Json(condition->values).dump());
    throw config_error(
        fmt::format("{}: space.{}.when: never holds: {}", parameter.origin, parameter.key, text));
  }
}

// Those that others depend on first; the order of the file otherwise.
static void order(Space& space) {
  std::vector<Parameter> ordered;
  auto rest = space.parameters;
  while (!rest.empty()) {
    const auto ready = std::ranges::find_if(rest, [&](const Parameter& parameter) {
      return std::ranges::all_of(parameter.when, [&](const Condition& condition) {
        return std::ranges::count(ordered, parent_of(space, condition.key)->key, &Parameter::key);
      });
    });
    if (ready == rest.end())
      throw config_error(fmt::format("{}: space.{}.when: its condition depends on itself",
                                     rest.front().origin, rest.front().key));
    ordered.push_back(*ready);
    rest.erase(ready);
  }
  space.parameters = ordered;
}

}  // namespace lockstep::sweep

namespace lockstep {

sweep::Space ConfigValue<sweep::Space>::read(const ConfigNode& node, const std::string& path) {
  if (node.kind != ConfigNode::Kind::Map || node.members.empty())
    throw bad_value(node, path, "a map of run file keys");
  sweep::Space space;
  for (const auto& [key, value] : node.members)
    space.parameters.push_back(sweep::read_parameter(key, value, fmt::format("{}.{}", path, key)));
  for (const auto& parameter : space.parameters)
    for (const auto& condition : parameter.when)
      sweep::verify_condition(space, parameter, condition);
  sweep::order(space);
  for (const auto& parameter : space.parameters) sweep::verify_active_somewhere(space, parameter);
  return space;
}

Json ConfigValue<sweep::Space>::dump(const sweep::Space& space) {
  static constexpr std::array kNames = {"choice", "uniform", "log_uniform", "int", "log_int"};
  auto all = Json::object();
  for (const auto& parameter : space.parameters) {
    auto& json = all[parameter.key] = Json::object();
    const auto* name = kNames.at(static_cast<size_t>(parameter.kind));
    if (parameter.is_choice())
      json[name] = parameter.choices;
    else if (parameter.is_integer())
      json[name] = {static_cast<int64_t>(parameter.low), static_cast<int64_t>(parameter.high)};
    else
      json[name] = {parameter.low, parameter.high};
    if (parameter.step > 1) json["step"] = parameter.step;
    if (parameter.points > 0) json["points"] = parameter.points;
    for (const auto& condition : parameter.when) json["when"][condition.key] = condition.values;
  }
  return all;
}

}  // namespace lockstep
