// The memory of a training step's activations, measured in a dry step.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "trainer/loop/trial.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

struct Activations {
  std::optional<size_t> bytes;  // of one rank; none: not measured
  bool is_measured = false;     // false: estimated from smaller batches, or not measured
  std::string note;             // how, or why not
};

// `memory`: of a step of a micro-batch of `num_samples`; none: it has no samples.
Activations measured_in_step(const std::optional<PassMemory>& memory, int64_t num_samples);

// Runs forward and backward pass of a micro-batch of `run` on the CPU, or, if that is large, of one
// and of two samples, from which it estimates that of the micro-batch. Uses at most the memory that
// is free here, and none for gradients. Throws Config where training would.
Activations measure_activations(const PreparedRun& run);

}  // namespace lockstep::trainer
