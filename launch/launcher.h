// Starts the workers of one node, shows and logs their output, and stops all of them when one fails
// or when this process receives SIGINT, SIGTERM, SIGHUP or SIGQUIT: SIGTERM to every worker's
// process group, then SIGKILL after the grace period, or immediately on a second signal. No worker
// survives this process, even if it is killed with SIGKILL. Processes that a worker leaves in its
// process group are killed with it; a process that must outlive it has to call setsid.
//
// With several nodes, there is one launcher on each. They find each other through the rendezvous
// (launch/rendezvous), and their workers start and stop as one group. While restarts are left, a
// failed group is restarted.
#pragma once

#include "launch/options/launch_options.h"
#include "launch/report/launch_report.h"
#include "launch/workers/log_directory.h"

namespace lockstep::launch {

// Opens /dev/null for standard streams that are closed. Otherwise, the next descriptor could get the
// number of one: what is printed would be written to it, and it would be lost in a worker.
// run_workers() calls this; call it earlier if descriptors are opened before. Throws Environment.
void open_standard_streams();

// Calls `claim_logs` for each attempt, which logs to the directory that it returns, in
// <local rank>/{stdout.log,stderr.log,error.json}.
//
// Blocks until the job has ended, and returns the report of all nodes' workers. A failed worker is
// reported there, not thrown, and so is a restart that cannot start. Throws Config (the program
// cannot be executed, numbers out of range, settings differ from the other nodes') or Environment
// (port taken, log directory not writable, no more processes, other nodes unreachable); no worker is
// left then. Thread: any, but one launch at a time per process; other threads must block signals.
LaunchReport run_workers(const LaunchOptions& options, const LogDirectory& claim_logs);

}  // namespace lockstep::launch
