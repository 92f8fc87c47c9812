// Where the nodes of a job share no file system, the agents of the other nodes send the event logs
// of their ranks to the agent of rank 0's node. Its run directory then has all logs, byte for byte,
// and its sinks get them. What was sent is known by the size of the copy, so either side can stop
// at any point, be started again, and go on.
//
// Over HTTP, every request with "Authorization: Bearer TOKEN" and "Lockstep-Node: N":
//   GET  /logs/NAME            {"size": bytes of the copy, "begin_crc": CRC-32C of its first ones}
//   POST /logs/NAME?offset=N   the bytes from there on; the same answer; 409 where N is not the
//   size POST /end                  this node has sent everything
// The token is made for each start of a job. What travels is not encrypted, as gradients are not.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

struct Forwarding {
  // On rank 0's node: the socket that the other nodes reach, who comes, and how many logs of ranks
  // they have together.
  std::shared_ptr<const FileDescriptor> listener;
  std::vector<int> from_nodes;
  int num_logs = 0;

  // On the other nodes: "http://10.0.0.1:4711"; empty: nothing is sent.
  std::string to;

  std::string token;

  bool receives() const { return listener != nullptr; }
  bool sends() const { return !to.empty(); }
};

// How a process that starts an agent hands it the socket and the token.
inline constexpr int kForwardingListener = 3;
inline constexpr const char* kForwardingTokenVariable = "LOCKSTEP_FORWARDING_TOKEN";

// What the receiver has of a log. `begin_crc`: of its first kComparedBytes, which tell whose log it
// is.
struct LogCopy {
  uint64_t size = 0;
  uint32_t begin_crc = 0;
};
inline constexpr uint64_t kComparedBytes = 4096;
nlohmann::json to_json(const LogCopy& copy);
std::optional<LogCopy> log_copy_from_json(const nlohmann::json& json);

// The most that one request carries.
inline constexpr size_t kForwardedPiece = 1u << 20;

}  // namespace lockstep::tracking
