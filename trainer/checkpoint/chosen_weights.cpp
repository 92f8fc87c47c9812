#include "trainer/checkpoint/chosen_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

bool matches(const std::string& name, const std::string& weight) {
  return weight == name || (weight.starts_with(name) && weight[name.size()] == '.');
}

// Valid names: the weights and all modules that contain them.
std::vector<std::string> choices(const std::vector<std::string>& weights) {
  std::set<std::string> names;
  for (const auto& weight : weights)
    for (auto end = weight.size(); end != std::string::npos && end > 0;
         end = weight.rfind('.', end - 1))
      names.insert(weight.substr(0, end));
  return {names.begin(), names.end()};
}

}  // namespace

bool is_chosen(const std::string& weight, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return matches(name, weight); });
}

void verify_chosen(const std::string& key, const std::vector<std::string>& names,
                   const std::vector<std::string>& weights, const std::string& kind) {
  for (const auto& name : names) {
    if (std::any_of(weights.begin(), weights.end(),
                    [&](const std::string& weight) { return matches(name, weight); }))
      continue;
    const auto near = nearest_name(name, choices(weights));
    throw config_error(fmt::format("{}: no {} is named '{}'{}", key, kind, printable(name, 200),
                                   near ? fmt::format("; did you mean '{}'?", *near)
                                        : fmt::format("; a valid name is '{}'", weights.at(0))));
  }
}

}  // namespace lockstep::trainer
