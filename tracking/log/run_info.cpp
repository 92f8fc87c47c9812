#include "tracking/log/run_info.h"

#include <type_traits>

namespace lockstep {
namespace {

void take(const Json& json, const char* key, std::string& value) {
  const auto it = json.find(key);
  if (it != json.end() && it->is_string()) value = it->get<std::string>();
}

void take(const Json& json, const char* key, std::optional<std::string>& value) {
  const auto it = json.find(key);
  if (it != json.end() && it->is_string()) value = it->get<std::string>();
}

template <class T>
requires std::is_arithmetic_v<T>
void take(const Json& json, const char* key, T& value) {
  const auto it = json.find(key);
  if (it == json.end()) return;
  if (std::is_floating_point_v<T> ? it->is_number() : it->is_number_integer()) value = it->get<T>();
}

Json or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

RunLength length_from_json(const Json& json) {
  RunLength length;
  const auto it = json.find("planned");
  if (it == json.end() || !it->is_object()) return length;
  take(*it, "steps", length.steps);
  take(*it, "epochs", length.epochs);
  return length;
}

}  // namespace

Json to_json(const RunLength& length) {
  return {{"steps", length.steps > 0 ? Json(length.steps) : Json(nullptr)},
          {"epochs", length.epochs > 0 ? Json(length.epochs) : Json(nullptr)}};
}

Json to_json(const RunInfo& info) {
  return {{"id", info.id},
          {"name", info.name},
          {"group", or_null(info.group)},
          {"job_type", or_null(info.job_type)},
          {"job_id", info.job_id},
          {"rank", info.rank},
          {"world_size", info.world_size},
          {"node_rank", info.node_rank},
          {"local_rank", info.local_rank},
          {"host", info.host},
          {"pid", info.pid},
          {"created", info.created},
          {"command", info.command},
          {"planned", to_json(info.planned)}};
}

std::optional<RunInfo> run_info_from_json(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  RunInfo info;
  take(json, "id", info.id);
  if (info.id.empty()) return std::nullopt;
  info.job_id = info.id;
  take(json, "name", info.name);
  take(json, "group", info.group);
  take(json, "job_type", info.job_type);
  take(json, "job_id", info.job_id);
  take(json, "rank", info.rank);
  take(json, "world_size", info.world_size);
  take(json, "node_rank", info.node_rank);
  take(json, "local_rank", info.local_rank);
  take(json, "host", info.host);
  take(json, "pid", info.pid);
  take(json, "created", info.created);
  if (const auto command = json.find("command"); command != json.end() && command->is_array())
    for (const auto& word : *command)
      if (word.is_string()) info.command.push_back(word.get<std::string>());
  info.planned = length_from_json(json);
  return info;
}

}  // namespace lockstep
