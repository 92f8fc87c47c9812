#include "sweep/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::sweep {
namespace {

// JSON has no NaN.
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

template <class E>
E choice_of(const Json& json) {
  const auto names = choices(E{});
  const auto it = std::ranges::find(names, json.get<std::string>());
  if (it == names.end()) throw std::invalid_argument(fmt::format("unknown value {}", json.dump()));
  return static_cast<E>(it - names.begin());
}

}  // namespace

Json to_json(const Trial& trial) {
  Json json = {{"number", trial.number},
               {"by", name_of(trial.by)},
               {"parameters", trial.parameters},
               {"state", name_of(trial.state)},
               {"created", trial.created}};
  if (!trial.saw.empty()) json["saw"] = trial.saw;
  if (trial.is_open() && (trial.is_handed_out || trial.by == TrialSource::Ask))
    json["handed_out"] = trial.is_handed_out;
  if (!trial.is_open()) json["ended"] = trial.ended;
  if (!trial.is_open()) {
    json["values"] = Json::array();
    for (const auto value : trial.values) json["values"].push_back(number_json(value));
  }
  if (!trial.evaluations.empty()) json["evaluations"] = Json::array();
  for (const auto& [step, value] : trial.evaluations)
    json["evaluations"].push_back({step, number_json(value)});
  if (!trial.runs.empty()) json["runs"] = trial.runs;
  if (!trial.reason.empty()) json["reason"] = trial.reason;
  return json;
}

Trial trial_from_json(const Json& json, const std::string& name) {
  try {
    Trial trial;
    trial.number = json.at("number");
    trial.parameters = json.at("parameters");
    if (!trial.parameters.is_object())
      throw std::invalid_argument("parameters: expected an object");
    trial.by = json.contains("by") ? choice_of<TrialSource>(json["by"]) : TrialSource::Hand;
    if (json.contains("state")) trial.state = choice_of<TrialState>(json["state"]);
    trial.is_handed_out = trial.is_open() && json.value("handed_out", trial.by == TrialSource::Ask);
    trial.created = json.value("created", 0.0);
    trial.ended = json.value("ended", 0.0);
    trial.saw = json.value("saw", std::vector<int64_t>());
    for (const auto& value : json.value("values", Json::array()))
      trial.values.push_back(number_of(value));
    for (const auto& pair : json.value("evaluations", Json::array()))
      trial.evaluations.push_back({pair.at(0).get<int64_t>(), number_of(pair.at(1))});
    trial.runs = json.value("runs", std::vector<std::string>());
    trial.reason = json.value("reason", "");
    return trial;
  } catch (const std::exception& error) {
    throw config_error(fmt::format("{}: not a trial: {}", name, error.what()));
  }
}

}  // namespace lockstep::sweep
