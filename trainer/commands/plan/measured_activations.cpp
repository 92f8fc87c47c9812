#include "trainer/commands/plan/measured_activations.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/size_text.h"
#include "lockstep/error.h"
#include "tracking/system/free_memory.h"
#include "trainer/loop/trial.h"
#include "trainer/metrics/live_memory.h"

namespace lockstep::trainer {
namespace {

// Larger micro-batches are estimated: they would take too long.
constexpr size_t kMaxMeasuredBytes = size_t{512} << 20;

std::string samples_text(int64_t count) {
  return fmt::format("{} sample{}", count, count == 1 ? "" : "s");
}

// The line through the values of one and of two samples.
size_t extrapolate(size_t one, size_t two, int64_t num_samples) {
  return two + (two > one ? two - one : 0) * static_cast<size_t>(num_samples - 2);
}

// The pass has its peak at its end with a few samples if gradients of weights are larger than
// activations; the forward pass grows with every sample.
Activations estimate(const PassMemory& one, const PassMemory& two, int64_t num_samples) {
  return {
      .bytes = std::max(extrapolate(one.whole, two.whole, num_samples),
                        extrapolate(one.forward, two.forward, num_samples)),
      .is_measured = false,
      .note = fmt::format("estimated from batches of 1 and 2 samples for one of {}", num_samples)};
}

Activations no_samples() {
  return {.bytes = {}, .note = "not measured: the first samples cannot be loaded"};
}

class Measurement {
 public:
  explicit Measurement(const PreparedRun& run)
      : run_(run), num_samples_(run.plan.per_rank_batch_size) {
    const auto free = tracking::free_memory().bytes;
    limit_ = free - free / 8;
  }

  Activations result() const {
    if (num_samples_ <= 2) return of_whole_batch();
    std::optional<PassMemory> one;
    try {
      one = try_step(run_, at::kCPU, 1, limit_);
    } catch (const Error&) {
      return of_whole_batch();  // e.g. a model that was compiled for one batch size
    } catch (const MemoryLimitReached&) {
      return too_large(1);
    }
    if (!one) return no_samples();
    return from_one_sample(*one);
  }

 private:
  Activations from_one_sample(const PassMemory& one) const {
    try {
      const auto two = try_step(run_, at::kCPU, 2, limit_);
      if (!two) return no_samples();
      const auto expected = estimate(one, *two, num_samples_);
      return *expected.bytes > std::min(kMaxMeasuredBytes, limit_) ? expected : of_whole_batch();
    } catch (const MemoryLimitReached&) {
      return too_large(2);
    }
  }

  Activations of_whole_batch() const {
    try {
      return measured_in_step(try_step(run_, at::kCPU, num_samples_, limit_), num_samples_);
    } catch (const MemoryLimitReached&) {
      return too_large(num_samples_);
    }
  }

  Activations too_large(int64_t num_samples) const {
    return {
        .bytes = {},
        .note = fmt::format("not measured: more than the {} of memory that is free here, for {}",
                            size_text(limit_), samples_text(num_samples))};
  }

  const PreparedRun& run_;
  int64_t num_samples_;
  size_t limit_ = 0;
};

}  // namespace

Activations measured_in_step(const std::optional<PassMemory>& memory, int64_t num_samples) {
  if (!memory) return no_samples();
  return {.bytes = memory->whole,
          .is_measured = true,
          .note = fmt::format("measured in a step of {}", samples_text(num_samples))};
}

Activations measure_activations(const PreparedRun& run) {
  if (run.missing && run.missing->has_unknown_samples())
    return {.bytes = {},
            .note = "not measured: the data are not here, and the model has no example_sample()"};
  if (selects_gpu(run.config.distributed.device) && run.model->has_backward())
    return {.bytes = {}, .note = "not measured: the model is compiled for a GPU"};
  run.model->to(at::kCPU);
  run.model->train();
  return Measurement(run).result();
}

}  // namespace lockstep::trainer
