// Rotary position embeddings (Su et al., "RoFormer", 2021), with the scalings of Llama 3.1 and YaRN
// (Peng et al., 2023), as transformers computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/decoder/decoder_config.h"

namespace lockstep::models {

// Cosines and sines [T, dim] of the angles of positions 0 to T - 1, float32; [B, 1, T, dim] if
// positions differ between samples.
struct RotaryTable {
  at::Tensor cosine, sine;

  // Of the given positions: [B, 1, T, dim].
  RotaryTable at(const at::Tensor& positions_BT) const;
};

// `dim`: rotated elements of a head. `context`: for a scaling without original_context.
RotaryTable rotary_table(const RotaryConfig& config, int64_t dim, int64_t tokens, int64_t context,
                         at::Device device);

// Rotates the first elements of `x` [B, heads, T, head_dim] by the angles of `table`, in the type of
// x. Element i is paired with element i + dim / 2.
at::Tensor rotate(const at::Tensor& x, const RotaryTable& table);

// The same with half as many passes over memory, and without keeping activations for the backward
// pass; results differ in the last bits. rotate() uses it on GPUs, where memory limits the speed.
at::Tensor rotate_with_fewer_passes(const at::Tensor& x, const RotaryTable& table);

}  // namespace lockstep::models
