// Starts one `lockstep launch` on each of several hosts through ssh, shows their output under the
// name of the host, and ends all of them when one fails or when this process is told to end. When
// this process is killed, even with SIGKILL, the hosts notice and end theirs.
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "launch/environment/node_order.h"
#include "launch/ssh/hostfile.h"

namespace lockstep::launch {

struct RemoteLaunch {
  std::vector<Host> hosts;
  std::vector<NodeOrder> orders;           // one for each host
  std::vector<std::string> ssh = {"ssh"};  // the program and options of the user's own
  std::string program;                     // `lockstep` on the hosts
  std::string own_program;                 // and on this one
  std::chrono::milliseconds grace{};       // from the order to stop to the end of patience
  int stdout_fd = STDOUT_FILENO, stderr_fd = STDERR_FILENO;
};

struct RemoteEnd {
  int exit_code = 0;
  // One line: how it ended, and which host says why; empty when all succeeded.
  std::string summary;
};

// Whether `host` is this machine, which needs no ssh: "localhost", or the own host name.
bool is_this_host(const Host& host);

// Returns when all have ended; then exit_code is 0, that of the host that failed first, or 128 +
// the signal that ended this launch. Throws Config or Environment, naming the host and what to do,
// when one could not be started (then none runs any more). Thread: the main one.
RemoteEnd run_on_hosts(const RemoteLaunch& launch);

}  // namespace lockstep::launch
