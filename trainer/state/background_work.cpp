#include "trainer/state/background_work.h"

#include <fmt/format.h>
#include <pthread.h>

#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {

BackgroundWork::BackgroundWork(const std::string& name)
    : thread_([this](const std::stop_token& stop) { run(stop); }) {
  ::pthread_setname_np(thread_.native_handle(), name.c_str());
}

void BackgroundWork::start(std::function<void()> work) {
  const MutexLock lock(mutex_);
  check(!is_busy_, "background work is already in progress");
  work_ = std::move(work);
  is_busy_ = true;
  changed_.notify_all();
}

bool BackgroundWork::is_busy() const {
  const MutexLock lock(mutex_);
  return is_busy_;
}

void BackgroundWork::wait(std::chrono::milliseconds timeout, const std::string& what) {
  MutexLock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [this]() REQUIRES(mutex_) { return !is_busy_; }))
    throw environment_error(
        fmt::format("{} did not finish within {} s", what,
                    std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
  if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

void BackgroundWork::run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const auto has_work = [this]() REQUIRES(mutex_) { return static_cast<bool>(work_); };
  while (changed_.wait(lock, stop, has_work)) {
    auto work = std::exchange(work_, nullptr);
    lock.unlock();
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // what it holds is freed before wait() returns
    lock.lock();
    failure_ = failure;
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace lockstep::trainer
