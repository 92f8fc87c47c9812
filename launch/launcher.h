// Starts the workers of one node, shows and keeps their output, and stops all when one fails or
// when this process is told to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT): SIGTERM to every worker's
// process group, SIGKILL after the grace, or at once for a second signal. Also when this process is
// killed with SIGKILL no worker survives it. What a worker leaves behind in its process group is
// killed with it; what should outlive it must have left that group (setsid).
//
// With several nodes, one launcher on each: they meet (launch/rendezvous), their workers are one
// group, and what happens to one node's workers happens to all. With restarts left, a failed group
// is started again.
#pragma once

#include "launch/options/launch_options.h"
#include "launch/report/launch_report.h"
#include "launch/workers/log_directory.h"

namespace lockstep::launch {

// Each start of the workers gets the next free <log_dir>/attempt_<n>, with
// <local rank>/{stdout.log,stderr.log,error.json}.
//
// Returns when the job has ended, with the report of all nodes' workers. A failing worker is told
// in the report, not thrown. Throws Config (the program cannot be executed, numbers out of range,
// this node does not fit the others) or Environment (port taken, log directory not writable, no
// more processes, other nodes out of reach); then no worker is left. Thread: any, but one launch at
// a time in a process; other threads must not take signals.
LaunchReport run_workers(const LaunchOptions& options, const LogDirectory& log_dir);

}  // namespace lockstep::launch
