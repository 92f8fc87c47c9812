// Forwarding of event logs, for nodes that share no file system. The agents of the other nodes send
// the event logs of their ranks to the agent of rank 0's node, which stores identical copies in its
// run directory and feeds them to its sinks. The size of a copy is the position to continue at, so
// either side can be restarted at any point.
//
// Protocol: HTTP, each request with "Authorization: Bearer TOKEN" and "Lockstep-Node: N".
//   GET  /logs/NAME            {"size": bytes of the copy, "begin_crc": CRC-32C of its start}
//   POST /logs/NAME?offset=N   appends the body and returns the same; 409 if N is not the size
//   POST /end                  this node has sent everything
// Each start of a job creates a new token. Traffic is not encrypted, like that of gradients.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

struct Forwarding {
  // On rank 0's node: the listening socket, the nodes that send, and their total number of rank
  // logs.
  std::shared_ptr<const FileDescriptor> listener;
  std::vector<int> from_nodes;
  int num_logs = 0;

  // On the other nodes: the receiver, "http://10.0.0.1:4711"; empty: nothing is sent.
  std::string to;

  std::string token;

  bool receives() const { return listener != nullptr; }
  bool sends() const { return !to.empty(); }
};

// The descriptor and the environment variable that pass the socket and the token to an agent.
inline constexpr int kForwardingListener = 3;
inline constexpr const char* kForwardingTokenVariable = "LOCKSTEP_FORWARDING_TOKEN";

// The receiver's copy of a log. `begin_crc`: of its first kComparedBytes, which identify the log.
struct LogCopy {
  uint64_t size = 0;
  uint32_t begin_crc = 0;
};
inline constexpr uint64_t kComparedBytes = 4096;
nlohmann::json to_json(const LogCopy& copy);
std::optional<LogCopy> log_copy_from_json(const nlohmann::json& json);

// The maximum body size of a request.
inline constexpr size_t kMaxForwardedBytes = 1u << 20;

}  // namespace lockstep::tracking
