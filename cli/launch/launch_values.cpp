#include "cli/launch/launch_values.h"

#include <fmt/format.h>

#include <cmath>

#include "core/config/period.h"
#include "core/number_text.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::cli {
namespace {

constexpr double kMaxSeconds = 1e7;

}  // namespace

std::string variable_of(const std::string& option) {
  std::string variable = "PET_" + option;
  for (auto& letter : variable)
    letter =
        letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return variable;
}

std::optional<std::string> LaunchValues::given(const std::string& name) const {
  if (!result_.count(name)) return environment(variable_of(name).c_str());
  auto text = result_[name].as<std::string>();
  if (text.empty()) throw config_error(fmt::format("--{}: expected a value, got nothing", name));
  return text;
}

std::vector<std::string> LaunchValues::all(const std::string& name) const {
  std::vector<std::string> values;
  const auto last = given(name);
  for (const auto& option : result_.arguments())
    if (option.key() == name) values.push_back(option.value());
  if (values.empty() && last) values.push_back(*last);
  return values;
}

std::string LaunchValues::text(const std::string& name) const {
  const auto text = given(name);
  return text ? *text : result_[name].as<std::string>();
}

bool LaunchValues::flag(const std::string& name) const {
  if (result_.count(name)) return result_[name].as<bool>();
  const auto text = environment(variable_of(name).c_str());
  return text && *text != "0";
}

int LaunchValues::number(const std::string& name, int min, int max) const {
  return to_number("--" + name, text(name), min, max);
}

std::chrono::milliseconds LaunchValues::duration(const std::string& name) const {
  return to_duration("--" + name, text(name));
}

int to_number(const std::string& what, const std::string& text, int min, int max) {
  const auto value = parse_number<int>(text);
  if (!value || *value < min || *value > max)
    throw config_error(fmt::format("{} {}: expected a number from {} to {}", what, text, min, max));
  return *value;
}

std::chrono::milliseconds to_duration(const std::string& what, const std::string& text) {
  const auto seconds = parse_number<double>(text);
  if (seconds && *seconds >= 0 && *seconds <= kMaxSeconds)
    return std::chrono::milliseconds(std::llround(*seconds * 1000));
  if (const auto duration = parse_time_span(text)) return *duration;
  ConfigNode node;
  node.kind = ConfigNode::Kind::Scalar;
  node.scalar = text;
  node.origin = "command line";
  return ConfigValue<Duration>::read(node, what).value;
}

}  // namespace lockstep::cli
