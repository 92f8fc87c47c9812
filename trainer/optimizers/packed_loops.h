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

}  // namespace lockstep::trainer
