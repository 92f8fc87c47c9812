#include "formats/store/retries.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace lockstep::formats {
namespace {

constexpr std::chrono::milliseconds kFirstDelay{100}, kMaxDelay{10'000};

// Of this process.
struct Paces {
  Mutex mutex;
  StoreLimits limits GUARDED_BY(mutex);
  Pace bytes GUARDED_BY(mutex), requests GUARDED_BY(mutex);
};

Paces& paces() {
  static Paces all;
  return all;
}

}  // namespace

void set_store_limits(const StoreLimits& limits) {
  const MutexLock lock(paces().mutex);
  paces().limits = limits;
}

Pace::Clock::time_point Pace::reserve(double amount, double rate, Clock::time_point now) {
  if (rate <= 0) return now;
  const auto begin = std::max(free_at_, now);
  const auto taken = std::chrono::duration<double>(amount / rate);
  free_at_ = begin + std::chrono::duration_cast<Clock::duration>(taken);
  return begin;
}

std::chrono::steady_clock::duration Retries::wait_for_request() {
  auto& all = paces();
  const auto now = std::chrono::steady_clock::now();
  const auto reserve = [&] {
    const MutexLock lock(all.mutex);
    return all.requests.reserve(1, all.limits.requests_per_s, now);
  };
  return wait_until(reserve());
}

void Retries::wait_for_bytes(size_t bytes) {
  auto& all = paces();
  const auto now = std::chrono::steady_clock::now();
  const auto reserve = [&] {
    const MutexLock lock(all.mutex);
    return all.bytes.reserve(static_cast<double>(bytes), all.limits.bytes_per_s, now);
  };
  wait_until(reserve());
}

// Returns how long it waited.
std::chrono::steady_clock::duration Retries::wait_until(
    std::chrono::steady_clock::time_point time) {
  const auto begin = std::chrono::steady_clock::now();
  if (time <= begin) return {};
  MutexLock lock(mutex_);
  changed_.wait_until(lock.native(), stop_.get_token(), time, [] { return false; });
  if (stop_.stop_requested()) throw environment_error("the process ends");
  return std::chrono::steady_clock::now() - begin;
}

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
