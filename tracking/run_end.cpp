#include "tracking/run_end.h"

#include <fmt/format.h>

#include <array>

#include "core/durable_file.h"
#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<RunState, const char*>, 6> kStates = {
    {{RunState::Running, "running"},
     {RunState::Finished, "finished"},
     {RunState::Failed, "failed"},
     {RunState::Killed, "killed"},
     {RunState::Preempted, "preempted"},
     {RunState::Lost, "lost"}}};

std::filesystem::path end_path(const std::filesystem::path& run_dir) {
  return run_dir / "end.json";
}

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
                              : "",
                .is_confirmed = json.value("confirmed", Json()) == true};
}

void write_run_end(const std::filesystem::path& run_dir, const RunEnd& end) {
  auto json = to_json(end);
  if (end.is_confirmed) json["confirmed"] = true;
  write_file_durably(end_path(run_dir),
                     json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<RunEnd> read_run_end(const std::filesystem::path& run_dir) {
  std::error_code ignored;
  if (!std::filesystem::exists(end_path(run_dir), ignored)) return std::nullopt;
  return run_end_from_json(Json::parse(read_file(end_path(run_dir)), nullptr, false));
}

void clear_run_end(const std::filesystem::path& run_dir) {
  std::error_code error;
  std::filesystem::remove(end_path(run_dir), error);
  if (error)
    throw environment_error(
        fmt::format("cannot remove {}: {}", end_path(run_dir).string(), error.message()));
}

}  // namespace lockstep
