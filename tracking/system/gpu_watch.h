// Reads the GPUs on a separate thread, so that a blocked driver delays the caller only once.
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

// Thread: one user. Without the library no thread is started, and readings are empty.
class GpuWatch {
 public:
  // `timeout`: how long end_reading() waits.
  GpuWatch(const std::filesystem::path& library, std::chrono::milliseconds timeout);
  // After the timeout, detaches from a thread that is blocked in the driver.
  ~GpuWatch();
  GpuWatch(GpuWatch&&) = delete;

  // Starts a reading, unless an earlier one is in progress.
  void begin_reading(const std::vector<int64_t>& pids);

  // The reading that begin_reading() started. Empty after the timeout; immediately if an earlier
  // one is still in progress.
  std::vector<GpuReading> end_reading();

 private:
  enum class Phase { Idle, Requested, Reading, Done, Ended };
  // Shared with the thread, which may outlive this object.
  struct Shared {
    std::unique_ptr<NvmlLibrary> library;  // used by the thread
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
