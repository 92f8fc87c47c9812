// Reads the GPUs in a thread of its own, so that a driver that hangs costs one wait and no more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "core/system/mutex.h"
#include "tracking/system/nvml_library.h"

namespace lockstep::tracking {

// Thread: one user. Without the library there is no thread, and nothing is ever read.
class GpuWatch {
 public:
  // `timeout`: how long end_reading() waits.
  GpuWatch(const std::filesystem::path& library, std::chrono::milliseconds timeout);
  // A thread that hangs in the driver is left to itself after the timeout.
  ~GpuWatch();
  GpuWatch(GpuWatch&&) = delete;

  // Starts a reading, unless an earlier one is still under way.
  void begin_reading(const std::vector<int64_t>& pids);

  // The reading that begin_reading() started. Empty when it did not end within the timeout; at once
  // when an earlier one is still under way.
  std::vector<GpuReading> end_reading();

 private:
  enum class Phase { Idle, Asked, Reading, Done, Ended };
  // Shared with the thread, which may outlive this object.
  struct Shared {
    std::unique_ptr<NvmlLibrary> library;  // the thread's
    Mutex mutex;
    std::condition_variable changed;
    Phase phase GUARDED_BY(mutex) = Phase::Idle;
    bool stop GUARDED_BY(mutex) = false;
    std::vector<int64_t> pids GUARDED_BY(mutex);
    std::vector<GpuReading> readings GUARDED_BY(mutex);
  };

  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::chrono::milliseconds timeout_;
  bool begun_ = false;
  std::thread thread_;
};

}  // namespace lockstep::tracking
