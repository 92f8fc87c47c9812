#include "launch/environment/node_order.h"

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::launch {

std::string to_line(const NodeOrder& order) {
  const nlohmann::json json = {{"version", order.version},
                               {"directory", order.directory},
                               {"arguments", order.arguments},
                               {"environment", order.environment},
                               {"grace_ms", order.grace.count()}};
  // Invalid UTF-8 (e.g. in the name of a directory) must not make this throw.
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

NodeOrder parse_node_order(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    NodeOrder order;
    json.at("version").get_to(order.version);
    json.at("directory").get_to(order.directory);
    json.at("arguments").get_to(order.arguments);
    json.at("environment").get_to(order.environment);
    order.grace = std::chrono::milliseconds(json.at("grace_ms").get<int64_t>());
    return order;
  } catch (const nlohmann::json::exception&) {
    throw config_error(
        "launch-node: expected a start request of 'lockstep launch --hostfile' on stdin");
  }
}

}  // namespace lockstep::launch
