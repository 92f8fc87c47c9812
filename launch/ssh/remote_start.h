// Runs `lockstep launch` on several hosts over ssh, shows their output with the name of the host,
// and stops all of them when one fails or this process receives a termination signal. If this
// process is killed, even with SIGKILL, the hosts detect it and stop their launchers.
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
  std::vector<NodeOrder> orders;           // one per host
  std::vector<std::string> ssh = {"ssh"};  // program and options
  std::string program;                     // path of `lockstep` on the hosts
  std::string own_program;                 // path on this host
  std::chrono::milliseconds grace{};       // between SIGTERM and SIGKILL
  int stdout_fd = STDOUT_FILENO, stderr_fd = STDERR_FILENO;
};

struct RemoteEnd {
  int exit_code = 0;
  // One line: the outcome, and the host with the report; empty if all succeeded.
  std::string summary;
  bool is_console_complete = true;  // the console has shown all output
};

// Whether `host` is this machine, which needs no ssh: "localhost" or its own host name.
bool is_this_host(const Host& host);

// Returns when all hosts have ended; exit_code is 0, that of the host that failed first, or 128 +
// the signal that stopped this launch. Throws Config or Environment, with host and remedy, if a
// host could not be started; no host is running then. Thread: the main one.
RemoteEnd run_on_hosts(const RemoteLaunch& launch);

}  // namespace lockstep::launch
