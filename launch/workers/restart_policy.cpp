#include "launch/workers/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kMaxDelay = std::chrono::minutes(1);
// If the step is not known, an attempt of this duration counts as progress.
constexpr std::chrono::minutes kLongAttempt{1};
constexpr int kMaxDoublings = 16;

double to_seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

}  // namespace

bool RestartPolicy::made_progress(Clock::time_point now, int64_t step) {
  if (step == 0) return now - began_ >= kLongAttempt;
  return step > std::exchange(furthest_step_, std::max(furthest_step_, step));
}

std::optional<std::chrono::milliseconds> RestartPolicy::restart(Clock::time_point now,
                                                                int64_t step) {
  while (options_.window.count() > 0 && !recent_.empty() && now - recent_.front() > options_.window)
    recent_.pop_front();
  if (recent_.size() >= static_cast<size_t>(options_.max_restarts)) return std::nullopt;
  if (made_progress(now, step))
    failures_ = 0;
  else if (count_ > 0)
    failures_ = std::min(failures_ + 1, kMaxDoublings);
  recent_.push_back(now);
  ++count_;
  if (failures_ == 0) return std::chrono::milliseconds(0);
  return std::min(options_.delay * (1 << (failures_ - 1)), std::max(kMaxDelay, options_.delay));
}

void RestartPolicy::resume(int count) {
  count_ = count;
  if (options_.window.count() == 0) recent_.resize(static_cast<size_t>(count));
}

std::string RestartPolicy::describe(std::chrono::milliseconds delay) const {
  auto text = options_.window.count() > 0
                  ? fmt::format("restart {} ({} of {} within {:g} s)", count_, recent_.size(),
                                options_.max_restarts, to_seconds(options_.window))
                  : fmt::format("restart {} of {}", count_, options_.max_restarts);
  if (delay.count() > 0) text += fmt::format(" in {:g} s", to_seconds(delay));
  return text;
}

}  // namespace lockstep::launch
