// Counts the floating-point operations of matrix products, convolutions and attention as they run,
// from the shapes of their inputs: 2 per multiplication and addition, with the formulas of
// torch.utils.flop_counter. Other operators are not counted. The graphs of a compiled package count as
// lockstep-compile counted them.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>

namespace lockstep::trainer {

// Counts in all threads of the process during its lifetime. Operators then take about 1 µs longer.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  int64_t count() const;

 private:
  int64_t before_;
  at::CallbackHandle handle_;
};

}  // namespace lockstep::trainer
