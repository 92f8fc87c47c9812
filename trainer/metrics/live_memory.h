// Counts the bytes of tensors that a thread allocates, as LibTorch's profiler does.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

namespace lockstep::trainer {

// Tensors would need more memory than a LiveMemory permits.
struct MemoryLimitReached : std::exception {
  const char* what() const noexcept override { return "the limit of memory is reached"; }
};

// During its lifetime, counts what this thread, and the backward passes that it starts, allocate on
// a kind of device. Tensors that existed before must not be freed meanwhile.
class LiveMemory {
 public:
  // Allocations beyond `limit` throw MemoryLimitReached, from the operator that allocates. Compiled
  // code turns it into another exception: see reached_limit().
  LiveMemory(at::Device device, size_t limit);

  // Whether an allocation was beyond the limit.
  bool reached_limit() const { return counter_->reached_limit(); }

  // The largest number of bytes at a time, since the start or the last call.
  size_t take_peak();
  // The number of bytes now, without those freed that existed before; may be negative.
  int64_t live() const { return counter_->live(); }

 private:
  class Counter final : public c10::MemoryReportingInfoBase {
   public:
    Counter(at::DeviceType device, int64_t limit) : device_(device), limit_(limit) {}
    void reportMemoryUsage(void* memory, int64_t bytes, size_t allocated, size_t reserved,
                           at::Device device) override;
    bool memoryProfilingEnabled() const override { return true; }
    int64_t live() const { return live_; }
    bool reached_limit() const { return reached_limit_; }
    int64_t take_peak() { return peak_.exchange(live_); }

   private:
    at::DeviceType device_;
    int64_t limit_;
    std::atomic<int64_t> live_ = 0, peak_ = 0;
    std::atomic<bool> reached_limit_ = false;
  };

  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace lockstep::trainer
