// The protocol between `lockstep launch --hostfile` and `lockstep launch-node` on a host: one line
// of JSON on standard input, so that no setting, and no secret in particular, is on a command line.
// Single bytes follow: kAlive every few seconds, kStop, kKill. End of input means that the launch
// has exited.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

struct NodeOrder {
  std::string version;                             // of Lockstep; must be the same on all hosts
  std::string directory;                           // working directory
  std::vector<std::string> arguments;              // of `lockstep`
  std::map<std::string, std::string> environment;  // added to the host's environment
  std::chrono::milliseconds grace{};               // --stop-grace: SIGTERM to SIGKILL
};

constexpr char kAlive = '.', kStop = 's', kKill = 'k';
// The first line of the node's standard output, once it has parsed the order.
constexpr std::string_view kNodeReady = "lockstep-node: ready";
constexpr auto kAliveEvery = std::chrono::seconds(5);
constexpr auto kAliveTimeout = std::chrono::seconds(60);
constexpr size_t kMaxOrderBytes = 4u << 20;

// Without a newline.
std::string to_line(const NodeOrder& order);
// Throws Config if the line is not a valid order.
NodeOrder parse_node_order(std::string_view line);

}  // namespace lockstep::launch
