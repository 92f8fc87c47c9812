// What a launch tells its part on another host: one line of JSON on that part's standard input, so
// that nothing of it, and no secret above all, stands on a command line. Behind the line come
// single bytes: kAlive every few seconds, kStop, kKill. The end of the input means that the launch
// is gone.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

struct NodeOrder {
  std::string version;                             // of Lockstep: the same everywhere
  std::string directory;                           // to work in
  std::vector<std::string> arguments;              // of `lockstep`
  std::map<std::string, std::string> environment;  // added to the host's own
  std::chrono::milliseconds grace{};               // the launch's: SIGTERM to SIGKILL
};

constexpr char kAlive = '.', kStop = 's', kKill = 'k';
// The first line of the part's standard output, once it has understood the order.
constexpr std::string_view kNodeReady = "lockstep-node: ready";
constexpr auto kAliveEvery = std::chrono::seconds(5);
constexpr auto kSilenceMeansGone = std::chrono::seconds(60);
constexpr size_t kMaxOrder = 4u << 20;

// Without a newline.
std::string to_line(const NodeOrder& order);
// Throws Config for what is no order.
NodeOrder parse_node_order(std::string_view line);

}  // namespace lockstep::launch
