#include "tracking/system/gpu_watch.h"

#include <system_error>

namespace lockstep::tracking {

GpuWatch::GpuWatch(const std::filesystem::path& library, std::chrono::milliseconds timeout)
    : shared_(std::make_shared<Shared>()), timeout_(timeout) {
  shared_->library = NvmlLibrary::open(library);
  if (!shared_->library) return;
  try {
    thread_ = std::thread([shared = shared_] { work(shared); });
  } catch (const std::system_error&) {
    // Cannot create a thread: the GPUs are not watched.
  }
}

GpuWatch::~GpuWatch() {
  if (!thread_.joinable()) return;
  MutexLock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(
      lock.native(), timeout_,
      [this]() REQUIRES(shared_->mutex) { return shared_->phase == Phase::Ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void GpuWatch::begin_reading(const std::vector<int64_t>& pids) {
  begun_ = false;
  if (!thread_.joinable()) return;
  const MutexLock lock(shared_->mutex);
  if (shared_->phase != Phase::Idle && shared_->phase != Phase::Done) return;
  shared_->pids = pids;
  shared_->phase = Phase::Requested;
  shared_->changed.notify_all();
  begun_ = true;
}

std::vector<GpuReading> GpuWatch::end_reading() {
  if (!begun_) return {};
  begun_ = false;
  MutexLock lock(shared_->mutex);
  const auto over = [this]() REQUIRES(shared_->mutex) {
    return shared_->phase == Phase::Done || shared_->phase == Phase::Ended;
  };
  if (!shared_->changed.wait_for(lock.native(), timeout_, over)) return {};
  return std::move(shared_->readings);
}

// Returns on request, or if there is no driver.
void GpuWatch::work(const std::shared_ptr<Shared>& shared) {
  bool started = shared->library->start();
  MutexLock lock(shared->mutex);
  while (started && !shared->stop) {
    shared->changed.wait(lock.native(), [&]() REQUIRES(shared->mutex) {
      return shared->stop || shared->phase == Phase::Requested;
    });
    if (shared->stop) break;
    shared->phase = Phase::Reading;
    const auto pids = shared->pids;
    lock.unlock();
    auto readings = shared->library->read(pids);
    lock.lock();
    shared->readings = std::move(readings);
    shared->phase = Phase::Done;
    shared->changed.notify_all();
  }
  lock.unlock();
  shared->library.reset();  // without the lock: it calls the driver
  lock.lock();
  shared->phase = Phase::Ended;
  shared->changed.notify_all();
}

}  // namespace lockstep::tracking
