// Forwarding of event logs, for nodes that share no file system. The agents of the other nodes send
// the event logs of their ranks to the agent of rank 0's node, which stores identical copies in its
// run directory and feeds them to its sinks.
//
// Protocol: that of tracking/copies/log_copy.h, each request with "Authorization: Bearer TOKEN" and
// "Lockstep-Node: N", and
//   POST /end                  this node has sent everything
// Each start of a job creates a new token. Traffic is not encrypted, like that of gradients.
#pragma once

#include <memory>
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

  // The nodes share a file system, and processes of one may continue logs of another (launch
  // --on-rank-loss continue).
  bool may_move = false;

  bool receives() const { return listener != nullptr; }
  bool sends() const { return !to.empty(); }
};

// The descriptor and the environment variable that pass the socket and the token to an agent.
inline constexpr int kForwardingListener = 3;
inline constexpr const char* kForwardingTokenVariable = "LOCKSTEP_FORWARDING_TOKEN";

}  // namespace lockstep::tracking
