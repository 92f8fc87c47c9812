// Whether and why a training ends before its last step. Ranks agree on it in the vote of a step
// (distributed/step_vote.h), so that all of them stop after the same one.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/session.h"
#include "lockstep/world.h"
#include "trainer/loop/stop_signals.h"

namespace lockstep::trainer {

// What a rank may bring to the vote of a step. The first ones ask for the end of the run after this
// step; of several, the later one in this list wins.
enum StepFlags : uint32_t {
  kStopRequest = 2,   // `lockstep runs stop` or the dashboard
  kPreemptUser = 4,   // SIGUSR1
  kPreemptInt = 8,    // SIGINT
  kPreemptTerm = 16,  // SIGTERM
  kSaving = 32,       // this rank is writing a checkpoint in the background
  kSaved = 64,        // the main rank: there is a checkpoint of this attempt
  kNonFinite = 128,   // this rank has seen a loss or gradient that is not finite
};

// Thread: the training thread.
class StopController {
 public:
  // The arguments outlive this. `interruption` may be null: signals are not handled.
  StopController(const World& world, std::filesystem::path run_dir,
                 const StopSignals* interruption)
      : world_(world), run_dir_(std::move(run_dir)), interruption_(interruption) {}

  // What this rank asks for: a signal it has received, and on the main rank a stop request, for
  // which it reads the run directory once a second.
  uint32_t poll();

  // What all ranks asked for, from the vote.
  void agree(uint32_t flags);
  // A hook asked for it, on all ranks alike. A reason that there is already stays.
  void stop_early(const std::string& explanation);
  // The last step was made: nothing is left to stop.
  void complete() {
    reason_.reset();
    signal_ = 0;
  }

  bool is_stopping() const { return reason_.has_value(); }
  // Why run() returned before the last step; empty: it did not.
  std::optional<StopReason> reason() const { return reason_; }
  int signal() const { return signal_; }                           // of Preempted
  const std::string& explanation() const { return explanation_; }  // of EarlyStop

 private:
  const World& world_;
  std::filesystem::path run_dir_;
  const StopSignals* interruption_;
  std::chrono::steady_clock::time_point polled_at_;
  std::optional<StopReason> reason_;
  int signal_ = 0;
  std::string explanation_;
};

}  // namespace lockstep::trainer
