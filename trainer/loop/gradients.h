// How losses of several batches become one gradient, and how it is clipped.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/optimizer.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// What a batch counts for in a step: `part` of `whole`, each at least 0, `whole` not 0.
struct BatchWeight {
  int64_t part = 1, whole = 1;
};

// `loss`, the mean over a batch, times its weight. With equal batches that is nothing or a division
// by their number, as users of Python write it: the bits stay those.
at::Tensor weighted_loss(const at::Tensor& loss, const BatchWeight& weight);

// Collective ("targets of the step"), for losses that are means over targets such as tokens.
// `targets`: int64 scalars, of each batch of the step. Returns what the loss of each batch is to be
// divided by, so that after averaging over ranks its gradients add up to that of the mean over all
// targets of all ranks; float64 scalars on the targets' device, which nobody waits for. With equal
// counts everywhere they are the number of batches, exactly.
std::vector<at::Tensor> target_divisors(World& world, const std::vector<at::Tensor>& targets);

// Scales all gradients so that their joint 2-norm is at most `max_norm`. Returns the norm before, a
// scalar on their device, for which nobody waits; undefined where there are no gradients. Same
// arithmetic as Python's clip_grad_norm_ (torch/nn/utils/clip_grad.py).
at::Tensor clip_gradients(const NamedTensors& parameters, double max_norm);

}  // namespace lockstep::trainer
