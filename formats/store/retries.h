// Repeats requests to a bucket after temporary failures, and delays them to the limits of this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <stop_token>

#include "core/system/mutex.h"
#include "formats/store/object_store.h"

namespace lockstep::formats {

// Of all requests of this process together; 0: no limit.
struct StoreLimits {
  double bytes_per_s = 0;  // in both directions
  double requests_per_s = 0;
};

// From now on. Thread: any.
void set_store_limits(const StoreLimits& limits);

// When something may begin, so that a rate is kept.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  // `now` or later: when what was reserved before is over. `amount` takes amount / rate seconds.
  Clock::time_point reserve(double amount, double rate, Clock::time_point now);

 private:
  Clock::time_point free_at_;
};

// Thread: safe to use from several threads concurrently.
class Retries {
 public:
  // `timeout`: of a request with its repetitions.
  explicit Retries(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // Returns act(), repeated after temporary failures until the timeout is over, which begins with
  // the call, and again at `*progress_at`, which act() sets. Waits at least as long as the server
  // requests. Throws StoreError; Environment after stop().
  template <class Act>
  auto run(const Act& act, const std::chrono::steady_clock::time_point* progress_at = nullptr) {
    auto begin = std::chrono::steady_clock::now();
    for (int attempt = 0;; ++attempt) {
      const auto delay = wait_for_request();
      if (attempt == 0) begin += delay;
      ++requests_;
      std::chrono::seconds at_least{0};
      try {
        return act();
      } catch (const StoreError& error) {
        if (progress_at) begin = std::max(begin, *progress_at);
        at_least = std::chrono::seconds(error.retry_after_s());
        verify_may_repeat(error, attempt, begin);
      }
      ++retries_;
      pause(attempt, at_least);
    }
  }

  // Waits until `bytes` more may be sent or received. Throws Environment after stop().
  void wait_for_bytes(size_t bytes);

  // From now on, nothing is repeated, and nothing waits.
  void stop();

  int64_t num_requests() const { return requests_; }
  int64_t num_retries() const { return retries_; }

 private:
  void verify_may_repeat(const StoreError& error, int attempt,
                         std::chrono::steady_clock::time_point begin) const;
  void pause(int attempt, std::chrono::milliseconds at_least);
  std::chrono::steady_clock::duration wait_for_request();
  std::chrono::steady_clock::duration wait_until(std::chrono::steady_clock::time_point time);

  const std::chrono::milliseconds timeout_;
  std::atomic<int64_t> requests_ = 0, retries_ = 0;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::stop_source stop_;
};

}  // namespace lockstep::formats
