// A thread for work that must not hold up the training: one piece at a time.
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
  // Ends when the work under way does, however long it takes.
  ~BackgroundWork() = default;
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // The work before it must have ended.
  void start(std::function<void()> work);
  bool is_busy() const;

  // Returns when the work under way has ended, at once if there is none, and throws what it threw,
  // once. Throws Environment, saying `what` takes so long, after `timeout`.
  void wait(std::chrono::milliseconds timeout, const std::string& what);

 private:
  void run(const std::stop_token& stop);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> work_;  // guarded by mutex_; none: idle
  std::exception_ptr failure_;  // guarded by mutex_
  std::jthread thread_;         // last: joined before what it uses is gone
};

}  // namespace lockstep::trainer
