#include "trainer/loop/stop_controller.h"

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
  const auto now = std::chrono::steady_clock::now();
  if (tracking::is_main(world_.rank()) && now - polled_at_ >= kPollRequestEvery) {
    polled_at_ = now;
    if (tracking::read_stop_request(run_dir_)) flags |= kStopRequest;
  }
  return flags;
}

void StopController::agree(uint32_t flags) {
  if (flags & kLeave) is_leaving_ = true;
  if (flags & kStopRequest) reason_ = StopReason::Requested;
  for (const auto& [signal, flag] : kPreemptions) {
    if (!(flags & flag)) continue;
    reason_ = StopReason::Preempted;
    signal_ = signal;
  }
}

void StopController::stay() {
  may_leave_ = false;
  agree(kPreemptTerm);
}

void StopController::stop_early(const std::string& explanation) {
  if (reason_) return;
  reason_ = StopReason::EarlyStop;
  explanation_ = explanation;
}

}  // namespace lockstep::trainer
