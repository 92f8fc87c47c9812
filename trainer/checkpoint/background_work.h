// A thread for work that must not block training: one task at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::trainer {

class BackgroundWork {
 public:
  // `name`: of the thread, at most 15 characters.
  explicit BackgroundWork(const std::string& name);
  // Waits for the current work, however long it takes.
  ~BackgroundWork() = default;
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // Requires that no work is in progress.
  void start(std::function<void()> work);
  bool is_busy() const;

  // Waits for the current work, if any, and rethrows once what it threw. Throws Environment, with
  // `what` in the message, after `timeout`.
  void wait(std::chrono::milliseconds timeout, const std::string& what);

 private:
  void run(const std::stop_token& stop);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> work_;  // guarded by mutex_; empty: idle
  std::exception_ptr failure_;  // guarded by mutex_
  std::jthread thread_;         // last: joined before what it uses is gone
};

}  // namespace lockstep::trainer
