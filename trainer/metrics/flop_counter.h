// Counts the floating-point operations of matrix products, convolutions and attention as they run,
// from the shapes of their inputs: 2 per multiplication and addition, with the formulas of
// torch.utils.flop_counter. Other operators are not counted. The graphs of a compiled package count as
// lockstep-compile counted them.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace lockstep::trainer {

// Counts in all threads of the process during its lifetime. Operators then take about 1 µs longer.
class FlopCounter {
 public:
  // `num_parts`: of a model.
  explicit FlopCounter(size_t num_parts = 0);
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  int64_t count() const;

  // Operators that this thread runs between these two calls count for a part as well, and those of
  // the backward passes through them, in any thread: autograd numbers the nodes of a graph.
  void begin_part(size_t part);
  void end_part();
  int64_t count_of_part(size_t part) const { return parts_.at(part); }

 private:
  int64_t before_;
  std::vector<std::atomic<int64_t>> parts_;
  uint64_t first_node_ = 0;  // of the part that began
  at::CallbackHandle handle_, backward_handle_;
};

}  // namespace lockstep::trainer
