// States of an optimizer in fewer bits: bfloat16, or 8 bits per element with one scale for each
// block of elements. Same bits on every device: the arithmetic is of float32 and int32; on a CPU,
// one pass over memory (packed_loops.h) instead of one per operation.
//
// Note [Stochastic rounding]: an average with a decay of 0.999 changes by less than half the
// distance of two numbers of 8 bits, so rounding to the nearest would keep it as it is. It is
// rounded up with a probability of the part that is cut off instead. The random number is a hash of
// the bits of the number and of the step: an element needs no state of a generator, and the result
// depends neither on other elements nor on the number of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lockstep/config_value.h"
#include "trainer/optimizers/packed_loops.h"

namespace lockstep::trainer {

enum class StateType { Float32, BFloat16, Int8 };
constexpr auto choices(StateType) { return std::array{"fp32", "bf16", "int8"}; }

// Of bfloat16: rounds `values` (float32), stochastically. `step`: float32 scalar, the count of steps.
void pack_bf16(const at::Tensor& packed, const at::Tensor& values, const at::Tensor& step);

// Signed averages in int8: sign and square root of |value| / scale, in steps of 1 / 127. The scale
// is the largest |value| of a block. One-dimensional tensors; the last block may be smaller.
void pack_signed(const at::Tensor& packed, const at::Tensor& scales, const at::Tensor& values,
                 const at::Tensor& step, int64_t per_scale);
at::Tensor unpack_signed(const at::Tensor& packed, const at::Tensor& scales, int64_t per_scale);

// Averages of squares in uint8: the fourth root of value / scale, in steps of 1 / 255, at least 1, so
// that no denominator is 0. Its range is that of pack_signed(), since Adam divides by the root.
void pack_squares(const at::Tensor& packed, const at::Tensor& scales, const at::Tensor& values,
                  const at::Tensor& step, int64_t per_scale);
at::Tensor unpack_squares(const at::Tensor& packed, const at::Tensor& scales, int64_t per_scale);

// A parameter with its gradient and packed averages of the same shape. Scales: of int8, else undefined.
struct PackedAdam {
  at::Tensor parameter, gradient, average, square, average_scales, square_scales;
};

// One step of AdamW in one pass over memory, on a CPU, with packed averages. Returns false, and does
// nothing, if the tensors are not float32 in contiguous memory of a CPU. `step`: as above.
bool update_in_loop(const PackedAdam& tensors, const AdamNumbers& numbers, const at::Tensor& step,
                    int64_t per_scale);

}  // namespace lockstep::trainer
