// The launcher of one node as a loop: it meets the other nodes, starts and stops its workers as the
// coordinator says, tells how they ended, and ends with the job. Thread: one.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "launch/console.h"
#include "launch/hang_watch.h"
#include "launch/launch_options.h"
#include "launch/launch_report.h"
#include "launch/rendezvous/coordinator.h"
#include "launch/rendezvous/member.h"
#include "launch/signal_watch.h"
#include "launch/worker_group.h"

namespace lockstep {

class Agent {
 public:
  // `hang_watch` serves options.status; it outlives this, as the options do.
  Agent(const LaunchOptions& options, HangWatch& hang_watch);

  LaunchReport run();

 private:
  void take_turn();
  void take_signals();
  void take_orders();
  void begin(const NodePlace& place);
  void take_outcome();
  void tell_end(LaunchReport report);
  void exchange_status();
  void show_notes();
  LaunchReport make_report();

  const LaunchOptions& options_;
  Console out_, err_;
  SignalWatch signals_;
  std::unique_ptr<Coordinator> coordinator_;  // of the node that serves the rendezvous
  std::unique_ptr<Member> member_;
  std::optional<WorkerGroup> group_;
  int node_rank_ = 0;

  HangWatch& hang_watch_;

  std::optional<int> signalled_by_;
  PollSet::Clock::time_point signalled_at_;
  bool interrupted_ = false;
  LaunchReport last_report_;      // of the workers of this node
  std::exception_ptr own_error_;  // why they could not be started
  std::optional<FinishMessage> finish_;
  nlohmann::json last_status_;
  PollSet::Clock::time_point next_status_;
};

}  // namespace lockstep
