#include "trainer/loop/stop_controller.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tracking/runs/on_ranks.h"
#include "tracking/runs/stop_request.h"

namespace lockstep::trainer {
namespace {

// How often the main rank checks for a stop request.
constexpr auto kPollRequestEvery = std::chrono::seconds(1);

// In order of priority, the highest last.
constexpr std::array<std::pair<int, uint32_t>, 3> kPreemptions = {
    {{SIGUSR1, kPreemptUser}, {SIGINT, kPreemptInt}, {SIGTERM, kPreemptTerm}}};

constexpr double kMinOthers_s = 1e-6;  // a shorter time per step is not measured

}  // namespace

uint32_t StopController::poll() {
  uint32_t flags = 0;
  const auto caught = stop_signals_ ? stop_signals_->signal() : std::nullopt;
  for (const auto& [signal, flag] : kPreemptions)
    if (caught == signal) flags |= flag;
  if ((flags & kPreemptTerm) && may_leave_ && !stop_signals_->is_from_launcher()) {
    flags = kLeave;
    leaves_itself_ = true;
  }
  if (slowness_ > 0) flags |= kSlow;
  was_invited_ = (is_invited_ && is_invited_()) || was_invited_;
  if (was_invited_) flags |= kInvited;
  const auto now = std::chrono::steady_clock::now();
  if (tracking::is_main(world_.rank()) && now - polled_at_ >= kPollRequestEvery) {
    polled_at_ = now;
    if (tracking::read_stop_request(run_dir_)) flags |= kStopRequest;
  }
  return flags;
}

void StopController::agree(uint32_t flags) {
  leaving_ |= flags & (kLeave | kSlow | kInvited);
  if (flags & kStopRequest) reason_ = StopReason::Requested;
  for (const auto& [signal, flag] : kPreemptions) {
    if (!(flags & flag)) continue;
    reason_ = StopReason::Preempted;
    signal_ = signal;
  }
}

void StopController::note_times(const tracking::RankTimes& times) {
  if (slow_ranks_.policy == SlowRankPolicy::Keep) return;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - std::exchange(noted_at_, now);
  slow_rank_.note(times);
  slow_rank_.advance(passed.count());
  const auto slow = slow_rank_.find();
  if (!slow || slow->slowest != world_.rank()) return;
  slowness_ = slow->seconds / std::max(slow->others, kMinOthers_s);
  slow_rank_ = watch_of(slow_ranks_);  // if this rank is kept, it is checked again
}

std::optional<Departure> StopController::departure() const {
  if (leaves_itself_) return Departure();
  if (slowness_ > 0) return Departure{slowness_};
  return std::nullopt;
}

void StopController::stay() {
  const bool stops = (leaving_ & kLeave) != 0;
  leaving_ = 0;
  slowness_ = 0;
  was_invited_ = false;
  if (!stops) return;
  may_leave_ = false;
  agree(kPreemptTerm);
}

void StopController::stop_early(const std::string& explanation) {
  if (reason_) return;
  reason_ = StopReason::EarlyStop;
  explanation_ = explanation;
}

}  // namespace lockstep::trainer
