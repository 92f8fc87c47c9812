#include "formats/store/retries.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace lockstep::formats {
namespace {

constexpr std::chrono::milliseconds kFirstDelay{100}, kMaxDelay{10'000};

}  // namespace

void Retries::stop() {
  stop_.request_stop();
  changed_.notify_all();
}

void Retries::verify_may_repeat(const StoreError& error, int attempt,
                                std::chrono::steady_clock::time_point begin) const {
  if (error.failure() != StoreFailure::Temporary) throw error;
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  if (elapsed + std::chrono::seconds(error.retry_after_s()) < timeout_) return;
  throw StoreError(
      StoreFailure::Temporary, ErrorKind::Environment,
      fmt::format("{}, after {} attempts in {:.0f} s{}", error.what(), attempt + 1,
                  std::chrono::duration<double>(elapsed).count(),
                  elapsed < timeout_ ? fmt::format("; it requests a pause of {} s, which is longer "
                                                   "than the timeout",
                                                   error.retry_after_s())
                                     : ""));
}

// Exponential back-off with jitter, so that ranks do not repeat their requests at the same time.
void Retries::pause(int attempt, std::chrono::milliseconds at_least) {
  thread_local std::minstd_rand random(std::random_device{}());
  const auto longest = std::min(kMaxDelay, kFirstDelay * (1 << std::min(attempt, 10)));
  std::uniform_int_distribution<int64_t> jitter(longest.count() / 2, longest.count());
  MutexLock lock(mutex_);
  const auto delay = at_least + std::chrono::milliseconds(jitter(random));
  changed_.wait_for(lock.native(), stop_.get_token(), delay, [] { return false; });
  if (stop_.stop_requested()) throw environment_error("the process ends");
}

}  // namespace lockstep::formats
