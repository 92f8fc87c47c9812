#include "trainer/checkpoint/background_work.h"

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
  const std::lock_guard lock(mutex_);
  check(!work_, "background work is already in progress");
  work_ = std::move(work);
  changed_.notify_all();
}

bool BackgroundWork::is_busy() const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(work_);
}

void BackgroundWork::wait(std::chrono::milliseconds timeout, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [&] { return !work_; }))
    throw environment_error(
        fmt::format("{} did not finish within {} s", what,
                    std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
  if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

void BackgroundWork::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return static_cast<bool>(work_); })) {
    lock.unlock();
    std::exception_ptr failure;
    try {
      work_();  // no other thread accesses it until it is done
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace lockstep::trainer
