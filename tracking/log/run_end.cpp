#include "lockstep/run_info.h"

#include <array>

namespace lockstep {
namespace {

constexpr std::array<std::pair<RunState, const char*>, 6> kStates = {
    {{RunState::Running, "running"},
     {RunState::Finished, "finished"},
     {RunState::Failed, "failed"},
     {RunState::Killed, "killed"},
     {RunState::Preempted, "preempted"},
     {RunState::Lost, "lost"}}};

std::optional<int> optional_int(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_number_integer()) return std::nullopt;
  return it->get<int>();
}

}  // namespace

const char* state_name(RunState state) {
  for (const auto& [value, name] : kStates)
    if (value == state) return name;
  return "lost";
}

std::optional<RunState> parse_state(const std::string& name) {
  for (const auto& [value, text] : kStates)
    if (name == text) return value;
  return std::nullopt;
}

bool has_ended(RunState state) { return state != RunState::Running && state != RunState::Lost; }

int severity(RunState state) {
  switch (state) {
    case RunState::Finished: return 0;
    case RunState::Running: return 1;
    case RunState::Lost: return 2;
    default: return 3;
  }
}

Json to_json(const RunEnd& end) {
  Json json = {{"state", state_name(end.state)}, {"exit", end.exit_code}};
  if (end.signal) json["signal"] = *end.signal;
  if (end.rank) json["rank"] = *end.rank;
  if (!end.reason.empty()) json["reason"] = end.reason;
  return json;
}

std::optional<RunEnd> run_end_from_json(const Json& json) {
  if (!json.is_object() || !json.contains("state") || !json["state"].is_string())
    return std::nullopt;
  const auto state = parse_state(json["state"].get<std::string>());
  if (!state) return std::nullopt;
  return RunEnd{.state = *state,
                .exit_code = optional_int(json, "exit").value_or(0),
                .signal = optional_int(json, "signal"),
                .rank = optional_int(json, "rank"),
                .reason = json.contains("reason") && json["reason"].is_string()
                              ? json["reason"].get<std::string>()
                              : ""};
}

}  // namespace lockstep
