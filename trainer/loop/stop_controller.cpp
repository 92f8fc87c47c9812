#include "trainer/loop/stop_controller.h"

#include "tracking/runs/on_ranks.h"
#include "tracking/runs/stop_request.h"

namespace lockstep {
namespace {

// How often the main rank looks for a stop request.
constexpr auto kPollRequestEvery = std::chrono::seconds(1);
constexpr uint32_t kStopFlags =
    kEarlyStop | kStopRequest | kPreemptUser | kPreemptInt | kPreemptTerm;

uint32_t flag_of_signal(int signal) {
  return signal == SIGUSR1 ? kPreemptUser : signal == SIGINT ? kPreemptInt : kPreemptTerm;
}

}  // namespace

uint32_t StopController::poll() {
  uint32_t flags = 0;
  if (const auto signal = interruption_ ? interruption_->signal() : std::nullopt)
    flags |= flag_of_signal(*signal);
  const auto now = std::chrono::steady_clock::now();
  if (is_main(world_.rank()) && now - polled_at_ >= kPollRequestEvery) {
    polled_at_ = now;
    if (read_stop_request(run_dir_)) flags |= kStopRequest;
  }
  return flags;
}

void StopController::agree(uint32_t flags) { agreed_ = flags & kStopFlags; }

void StopController::stop_early() { agreed_ |= kEarlyStop; }

std::optional<StopReason> StopController::reason() const {
  if (agreed_ >= kPreemptUser) return StopReason::Preempted;
  if (agreed_ >= kStopRequest) return StopReason::Requested;
  return agreed_ ? std::optional(StopReason::EarlyStop) : std::nullopt;
}

int StopController::signal() const {
  if (agreed_ & kPreemptTerm) return SIGTERM;
  if (agreed_ & kPreemptInt) return SIGINT;
  return agreed_ & kPreemptUser ? SIGUSR1 : 0;
}

}  // namespace lockstep
