// Runs a few samples through the model before a run begins, so that errors are found before the run
// directory exists, and to learn the names of the evaluation's metrics.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// For both, the model must be on `device` and in training mode; it is afterwards too.
//
// Evaluates the first samples of both datasets, without side effects: weights, buffers and random
// state are unchanged. Throws Config when data and model do not fit together, or when
// train.early_stop.metric or checkpoint.keep_best.metric is not a metric of the evaluation.
void try_model(const PreparedRun& run, at::Device device);

// The largest size of the tensors of a forward and backward pass at a time, without weights, the
// batch, and gradients of weights that are complete.
struct PassMemory {
  size_t forward = 0, whole = 0;  // in the forward pass; in both
};

// Runs forward and backward pass of the first `num_samples` training samples, and frees the
// gradients. Returns nullopt if none of the samples can be loaded and that is permitted. Throws
// Config, and MemoryLimitReached before the tensors need more than `limit` bytes.
std::optional<PassMemory> try_step(const PreparedRun& run, at::Device device, int64_t num_samples,
                                   size_t limit);

}  // namespace lockstep::trainer
