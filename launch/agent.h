// The launcher of one node as a loop: it meets the other nodes, starts and stops its workers as the
// coordinator says, tells how they ended, and ends with the job. Thread: one.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "launch/hangs/hang_detector.h"
#include "launch/hangs/hang_reporter.h"
#include "launch/options/launch_options.h"
#include "launch/rendezvous/coordinator.h"
#include "launch/rendezvous/member.h"
#include "launch/report/launch_report.h"
#include "launch/signal_watch.h"
#include "launch/workers/console.h"
#include "launch/workers/log_directory.h"
#include "launch/workers/worker_group.h"

namespace lockstep {

class Agent {
 public:
  // Both outlive it.
  Agent(const LaunchOptions& options, const LogDirectory& log_dir);

  LaunchReport run();

 private:
  void take_turn();
  void take_signals();
  void take_orders();
  void take(const NodePlace& place);
  void take(const StopOrder& order);
  void take(const StackRequest& request) { hang_reporter_.take(request); }
  void take(const FinishMessage& finish);
  void take_outcome();
  void tell_end(LaunchReport report);
  bool is_telling_status() const;
  void tell_status();
  void show_notes();
  LaunchReport make_report();

  const LaunchOptions& options_;
  const LogDirectory& log_dir_;
  Console out_, err_;
  SignalWatch signals_;
  HangReporter hang_reporter_;
  HangDetector hang_detector_;
  std::unique_ptr<Coordinator> coordinator_;  // of the node that serves the rendezvous
  std::unique_ptr<Member> member_;
  std::optional<WorkerGroup> group_;
  int node_rank_ = 0;

  std::optional<int> signalled_by_;
  PollSet::Clock::time_point signalled_at_;
  bool interrupted_ = false;
  LaunchReport last_report_;      // of the workers of this node
  std::exception_ptr own_error_;  // why they could not be started
  std::optional<FinishMessage> finish_;
  PollSet::Clock::time_point next_status_;
};

}  // namespace lockstep
