#include "tracking/agent/forwarding.h"

namespace lockstep::tracking {

nlohmann::json to_json(const LogCopy& copy) {
  return {{"size", copy.size}, {"begin_crc", copy.begin_crc}};
}

std::optional<LogCopy> log_copy_from_json(const nlohmann::json& json) {
  const auto has = [&](const char* name) {
    return json.contains(name) && json[name].is_number_unsigned();
  };
  if (!json.is_object() || !has("size") || !has("begin_crc")) return std::nullopt;
  return LogCopy{json["size"].get<uint64_t>(), json["begin_crc"].get<uint32_t>()};
}

}  // namespace lockstep::tracking
