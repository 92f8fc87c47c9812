// The arithmetic of packed_state.h on a CPU, in one pass over memory each. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::trainer {

// `step`: the count of steps. `packed` has as many elements as `values`; the bits of bfloat16.
void pack_bf16_loop(std::span<uint16_t> packed, std::span<const float> values, int32_t step);

// One scale for each `per_scale` values; the last block may be smaller.
struct ScaledBlocks {
  float* scales;
  size_t per_scale;
};
void pack_signed_loop(std::span<int8_t> packed, const ScaledBlocks& blocks,
                      std::span<const float> values, int32_t step);
void unpack_signed_loop(std::span<const int8_t> packed, const ScaledBlocks& blocks,
                        std::span<float> values);
void pack_squares_loop(std::span<uint8_t> packed, const ScaledBlocks& blocks,
                       std::span<const float> values, int32_t step);
void unpack_squares_loop(std::span<const uint8_t> packed, const ScaledBlocks& blocks,
                         std::span<float> values);

// The numbers of a step of AdamW: an average becomes average + average_weight * (gradient - average),
// one of squares square_decay * square + square_weight * gradient^2, and a parameter
// kept_share * parameter - step_size * average / (sqrt(square) / root_correction + eps).
struct AdamNumbers {
  float average_weight, square_decay, square_weight, kept_share, step_size, root_correction, eps;
};

// A step, with averages that are packed as above, in one pass. All have as many elements as
// `parameters`. In bfloat16, the average of gradients is rounded to nearest.
void adam_bf16_loop(const AdamNumbers& numbers, std::span<float> parameters,
                    std::span<const float> gradients, std::span<uint16_t> averages,
                    std::span<uint16_t> squares, int32_t step);
void adam_int8_loop(const AdamNumbers& numbers, std::span<float> parameters,
                    std::span<const float> gradients, std::span<int8_t> averages,
                    const ScaledBlocks& average_blocks, std::span<uint8_t> squares,
                    const ScaledBlocks& square_blocks, int32_t step);

}  // namespace lockstep::trainer
