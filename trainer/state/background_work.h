// A thread for work that must not block training: one task at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "core/system/mutex.h"

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

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> work_ GUARDED_BY(mutex_);  // not started yet, or empty
  bool is_busy_ GUARDED_BY(mutex_) = false;        // from start() until the work is done
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: joined before what it uses is gone
};

}  // namespace lockstep::trainer
