// Weights the losses of several batches into one gradient, and clips it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/world.h"
#include "trainer/state/step_gradients.h"

namespace lockstep::trainer {

// The weight of a batch in a step: `part` / `whole`, each at least 0, `whole` not 0.
struct BatchWeight {
  int64_t part = 1, whole = 1;
};

// Returns `loss`, the mean over a batch, times its weight. With equal batches, that is `loss` or
// `loss` divided by their number, with the bits of the same code in Python.
at::Tensor weighted_loss(const at::Tensor& loss, const BatchWeight& weight);

// Collective ("targets of the step"), for losses that are means over targets such as tokens.
// `targets`: int64 scalars, one per batch of the step. Returns their sum over all ranks.
at::Tensor total_targets(World& world, const std::vector<at::Tensor>& targets);

// `targets`: as above. `num_parts`: of all ranks. Returns the divisor of each batch's loss, such that
// after averaging over parts the gradients add up to that of the mean over all targets of all ranks;
// float64 scalars on the targets' device, without waiting for it. With equal counts everywhere they
// are exactly the number of batches.
std::vector<at::Tensor> target_divisors(const std::vector<at::Tensor>& targets,
                                        const at::Tensor& total, int64_t num_parts);

// Scales all gradients so that their total 2-norm is at most `max_norm`. Returns the norm before
// clipping, a scalar on their device, without waiting for it; undefined if there are no gradients.
// Same arithmetic as Python's clip_grad_norm_ (torch/nn/utils/clip_grad.py). Collective if they are
// shared.
at::Tensor clip_gradients(const StepGradients& gradients, double max_norm);

}  // namespace lockstep::trainer
