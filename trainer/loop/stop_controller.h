// Whether and why training stops before its last step. Ranks agree on it in the vote of a step
// (distributed/step_vote.h), so that all of them stop after the same step.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/session.h"
#include "lockstep/world.h"
#include "trainer/config/slow_ranks.h"
#include "trainer/loop/stop_signals.h"

namespace lockstep::trainer {

// Flags of a rank in the vote of a step. The first four request the end of the run after this step;
// of several, the later one in this list wins.
enum StepFlags : uint32_t {
  kStopRequest = 2,   // `lockstep runs stop` or the dashboard
  kPreemptUser = 4,   // SIGUSR1
  kPreemptInt = 8,    // SIGINT
  kPreemptTerm = 16,  // SIGTERM
  kSaving = 32,       // this rank is writing a checkpoint in the background
  kSaved = 64,        // main rank only: this attempt has a checkpoint
  kNonFinite = 128,   // this rank has observed a loss or gradient that is not finite
  kUploading = 256,   // this rank is uploading its share of a checkpoint
  kLeave = 512,       // SIGTERM for this rank alone: the others continue without it
  kSlow = 1024,       // this rank is slow: the others continue without it if that is faster
  kInvited = 2048,    // processes wait for places: the group can have more ranks
};

// How a rank leaves its group: after SIGTERM, or since it is slow, if the others do as well without it.
struct Departure {
  double slowness = 0;  // its time per step, divided by that of the others; 0: after SIGTERM
};

// Thread: the training thread.
class StopController {
 public:
  // The arguments outlive this. `stop_signals` may be null: signals are not handled. `may_leave`:
  // SIGTERM for a rank does not stop the others. `is_invited`: see TrainerParts; may be empty.
  StopController(const World& world, std::filesystem::path run_dir, const StopSignals* stop_signals,
                 bool may_leave, const SlowRanksConfig& slow_ranks,
                 std::function<bool()> is_invited)
      : world_(world),
        run_dir_(std::move(run_dir)),
        stop_signals_(stop_signals),
        may_leave_(may_leave),
        slow_ranks_(slow_ranks),
        slow_rank_(watch_of(slow_ranks)),
        is_invited_(std::move(is_invited)) {}

  // Flags that this rank requests: for a signal it has received, and on the main rank for a stop
  // request in the run directory, which is checked once a second.
  uint32_t poll();

  // Applies the flags of all ranks, from the vote.
  void agree(uint32_t flags);
  // Stops on request of a hook, the same on all ranks. An earlier reason is kept.
  void stop_early(const std::string& explanation);
  // The step times of all ranks were recorded: if this rank is slow and the policy does not keep it,
  // it requests that the others continue without it.
  void note_times(const tracking::RankTimes& times);
  // Whether a rank is to leave after this step, or others are to join; whether this one leaves, and how.
  // stay(): that is not possible, so all ranks stop, or a slow rank keeps its place.
  bool is_leaving() const { return leaving_ != 0 && !is_stopping(); }
  std::optional<Departure> departure() const;
  void stay();
  // The last step is done: cancels any stop request.
  void complete() {
    reason_.reset();
    signal_ = 0;
  }

  bool is_stopping() const { return reason_.has_value(); }
  // Why run() returned before the last step; nullopt: it did not.
  std::optional<StopReason> reason() const { return reason_; }
  int signal() const { return signal_; }                           // of Preempted
  const std::string& explanation() const { return explanation_; }  // of EarlyStop

 private:
  const World& world_;
  std::filesystem::path run_dir_;
  const StopSignals* stop_signals_;
  bool may_leave_;
  uint32_t leaving_ = 0;  // flags: kLeave, kSlow, kInvited
  bool leaves_itself_ = false;
  const SlowRanksConfig& slow_ranks_;
  tracking::SlowRank slow_rank_;
  std::function<bool()> is_invited_;
  bool was_invited_ = false;  // the group has not changed since; not every vote is applied
  std::chrono::steady_clock::time_point noted_at_ = std::chrono::steady_clock::now();
  double slowness_ = 0;  // of this rank; 0: it is not slow
  std::chrono::steady_clock::time_point polled_at_;
  std::optional<StopReason> reason_;
  int signal_ = 0;
  std::string explanation_;
};

}  // namespace lockstep::trainer
