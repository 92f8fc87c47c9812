#include "trainer/metrics/live_memory.h"

#include <limits>

namespace lockstep::trainer {

void LiveMemory::Counter::reportMemoryUsage(void* /*memory*/, int64_t bytes, size_t /*allocated*/,
                                            size_t /*reserved*/, at::Device device) {
  if (device.type() != device_) return;
  const auto live = live_ += bytes;
  auto peak = peak_.load();
  while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
  }
  if (bytes <= 0 || live <= limit_) return;
  reached_limit_ = true;
  throw MemoryLimitReached();
}

LiveMemory::LiveMemory(at::Device device, size_t limit)
    : counter_(std::make_shared<Counter>(
          device.type(),
          static_cast<int64_t>(std::min<size_t>(limit, std::numeric_limits<int64_t>::max())))),
      guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

size_t LiveMemory::take_peak() {
  return static_cast<size_t>(std::max<int64_t>(0, counter_->take_peak()));
}

}  // namespace lockstep::trainer
