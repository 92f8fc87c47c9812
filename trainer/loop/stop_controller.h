// Whether and why a training ends before its last step. Ranks agree on it in the vote of a step
// (distributed/step_vote.h), so that all of them stop after the same one.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "distributed/world.h"
#include "trainer/loop/interruption.h"

namespace lockstep {

enum class StopReason { EarlyStop, Requested, Preempted };

// What a rank may bring to the vote of a step. The first ones ask for the end of the run after this
// step; of several, the later one in this list wins.
enum StepFlags : uint32_t {
  kEarlyStop = 1,     // a metric no longer improves
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
                 const Interruption* interruption)
      : world_(world), run_dir_(std::move(run_dir)), interruption_(interruption) {}

  // What this rank asks for: a signal it has received, and on the main rank a stop request, for
  // which it reads the run directory once a second.
  uint32_t poll();

  // What all ranks asked for, from the vote.
  void agree(uint32_t flags);
  // A metric no longer improves: all ranks found that alike.
  void stop_early();
  // The last step was made: nothing is left to stop.
  void complete() { agreed_ = 0; }

  bool is_stopping() const { return agreed_ != 0; }
  // Why run() returned before the last step; empty: it did not.
  std::optional<StopReason> reason() const;
  // The signal of StopReason::Preempted, or 0.
  int signal() const;

 private:
  const World& world_;
  std::filesystem::path run_dir_;
  const Interruption* interruption_;
  std::chrono::steady_clock::time_point polled_at_;
  uint32_t agreed_ = 0;
};

}  // namespace lockstep
