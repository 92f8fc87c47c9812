#include "trainer/optimizers/packed_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::trainer {
namespace {

// Two versions; the CPU selects one at program start. Both without fused multiply-add, so that the
// results are those of separate operations.
#define LOCKSTEP_WIDE_LOOP __attribute__((target_clones("avx2", "default")))

constexpr uint32_t kRandomMask = (uint32_t{1} << 24) - 1;
constexpr float kRandomUnit = 1.0f / (1 << 24);
constexpr float kSignedUnit = static_cast<float>(1.0 / 127);
constexpr float kSquareUnit = static_cast<float>(1.0 / 255);

// Shifts keep the sign, as those of int32 tensors.
inline uint32_t shifted(uint32_t x, int bits) {
  return static_cast<uint32_t>(static_cast<int32_t>(x) >> bits);
}

inline uint32_t random_bits(float value, uint32_t of_step) {
  auto x = std::bit_cast<uint32_t>(value) * 0x9E3779B1u + of_step;
  x = (x ^ shifted(x, 15)) * 0x85EBCA77u;
  return x ^ shifted(x, 13);
}

inline uint32_t bits_of_step(int32_t step) { return static_cast<uint32_t>(step) * 668265263u; }

inline float random_part(float value, uint32_t of_step) {
  return static_cast<float>(static_cast<int32_t>(random_bits(value, of_step) & kRandomMask)) *
         kRandomUnit;
}

// Floats that are not negative have the order of their bits.
LOCKSTEP_WIDE_LOOP
float largest_magnitude(const float* values, size_t count) {
  int32_t largest = 0;
  for (size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  return std::bit_cast<float>(largest);
}

float divisor(float scale) { return std::max(scale, std::numeric_limits<float>::min()); }

LOCKSTEP_WIDE_LOOP
void pack_bf16_part(uint16_t* packed, const float* values, size_t count, uint32_t of_step) {
  for (size_t i = 0; i < count; ++i) {
    const auto random = random_bits(values[i], of_step) & 0xffff;
    packed[i] = static_cast<uint16_t>((std::bit_cast<uint32_t>(values[i]) + random) >> 16);
  }
}

LOCKSTEP_WIDE_LOOP
void pack_signed_block(int8_t* packed, const float* values, size_t count, float scale,
                       uint32_t of_step) {
  for (size_t i = 0; i < count; ++i) {
    const auto root = std::sqrt(std::abs(values[i]) / scale) * 127;
    const auto rounded =
        std::min(127, static_cast<int32_t>(root + random_part(values[i], of_step)));
    const auto sign = static_cast<int32_t>(values[i] > 0) - static_cast<int32_t>(values[i] < 0);
    packed[i] = static_cast<int8_t>(rounded * sign);
  }
}

LOCKSTEP_WIDE_LOOP
void unpack_signed_block(const int8_t* packed, float* values, size_t count, float scale) {
  for (size_t i = 0; i < count; ++i) {
    const auto root = static_cast<float>(packed[i]) * kSignedUnit;
    values[i] = root * std::abs(root) * scale;
  }
}

LOCKSTEP_WIDE_LOOP
void pack_squares_block(uint8_t* packed, const float* values, size_t count, float scale,
                        uint32_t of_step) {
  for (size_t i = 0; i < count; ++i) {
    const auto root = std::sqrt(std::sqrt(values[i] / scale)) * 255;
    const auto rounded = static_cast<int32_t>(root + random_part(values[i], of_step));
    packed[i] = static_cast<uint8_t>(std::max(1, std::min(255, rounded)));
  }
}

LOCKSTEP_WIDE_LOOP
void unpack_squares_block(const uint8_t* packed, float* values, size_t count, float scale) {
  for (size_t i = 0; i < count; ++i) {
    const auto root = static_cast<float>(packed[i]) * kSquareUnit;
    const auto square = root * root;
    values[i] = square * square * scale;
  }
}

inline float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// To nearest, ties to even; a NaN remains one.
inline uint16_t nearest_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7fc0 : rounded);
}

// One element of a step; returns the parameter.
inline float adam_element(const AdamNumbers& n, float parameter, float gradient, float& average,
                          float& square) {
  average += n.average_weight * (gradient - average);
  square = square * n.square_decay + n.square_weight * gradient * gradient;
  const auto denominator = std::sqrt(square) / n.root_correction + n.eps;
  return parameter * n.kept_share - n.step_size * average / denominator;
}

LOCKSTEP_WIDE_LOOP
void adam_bf16_part(const AdamNumbers& numbers, float* __restrict parameters,
                    const float* __restrict gradients, uint16_t* __restrict averages,
                    uint16_t* __restrict squares, size_t count, uint32_t of_step) {
  const auto n = numbers;
  for (size_t i = 0; i < count; ++i) {
    auto average = from_bf16(averages[i]), square = from_bf16(squares[i]);
    parameters[i] = adam_element(n, parameters[i], gradients[i], average, square);
    averages[i] = nearest_bf16(average);
    const auto random = random_bits(square, of_step) & 0xffff;
    squares[i] = static_cast<uint16_t>((std::bit_cast<uint32_t>(square) + random) >> 16);
  }
}

LOCKSTEP_WIDE_LOOP
void adam_part(const AdamNumbers& numbers, float* __restrict parameters,
               const float* __restrict gradients, float* __restrict averages,
               float* __restrict squares, size_t count) {
  const auto n = numbers;
  for (size_t i = 0; i < count; ++i)
    parameters[i] = adam_element(n, parameters[i], gradients[i], averages[i], squares[i]);
}

// Calls act(begin, count, scale) for each block.
template <class Act>
void for_blocks(size_t count, const ScaledBlocks& blocks, const Act& act) {
  auto* scale = blocks.scales;
  for (size_t begin = 0; begin < count; begin += blocks.per_scale, ++scale)
    act(begin, std::min(blocks.per_scale, count - begin), *scale);
}

}  // namespace

void pack_bf16_loop(std::span<uint16_t> packed, std::span<const float> values, int32_t step) {
  pack_bf16_part(packed.data(), values.data(), values.size(), bits_of_step(step));
}

void pack_signed_loop(std::span<int8_t> packed, const ScaledBlocks& blocks,
                      std::span<const float> values, int32_t step) {
  for_blocks(values.size(), blocks, [&](size_t begin, size_t count, float& scale) {
    const auto* block = values.data() + begin;
    scale = largest_magnitude(block, count);
    pack_signed_block(packed.data() + begin, block, count, divisor(scale), bits_of_step(step));
  });
}

void unpack_signed_loop(std::span<const int8_t> packed, const ScaledBlocks& blocks,
                        std::span<float> values) {
  for_blocks(values.size(), blocks, [&](size_t begin, size_t count, float scale) {
    unpack_signed_block(packed.data() + begin, values.data() + begin, count, scale);
  });
}

void pack_squares_loop(std::span<uint8_t> packed, const ScaledBlocks& blocks,
                       std::span<const float> values, int32_t step) {
  for_blocks(values.size(), blocks, [&](size_t begin, size_t count, float& scale) {
    const auto* block = values.data() + begin;
    scale = largest_magnitude(block, count);
    pack_squares_block(packed.data() + begin, block, count, divisor(scale), bits_of_step(step));
  });
}

void unpack_squares_loop(std::span<const uint8_t> packed, const ScaledBlocks& blocks,
                         std::span<float> values) {
  for_blocks(values.size(), blocks, [&](size_t begin, size_t count, float scale) {
    unpack_squares_block(packed.data() + begin, values.data() + begin, count, scale);
  });
}

void adam_bf16_loop(const AdamNumbers& numbers, std::span<float> parameters,
                    std::span<const float> gradients, std::span<uint16_t> averages,
                    std::span<uint16_t> squares, int32_t step) {
  adam_bf16_part(numbers, parameters.data(), gradients.data(), averages.data(), squares.data(),
                 parameters.size(), bits_of_step(step));
}

void adam_int8_loop(const AdamNumbers& numbers, std::span<float> parameters,
                    std::span<const float> gradients, std::span<int8_t> averages,
                    const ScaledBlocks& average_blocks, std::span<uint8_t> squares,
                    const ScaledBlocks& square_blocks, int32_t step) {
  std::vector<float> unpacked(2 * average_blocks.per_scale);
  auto* const average = unpacked.data();
  auto* const square = average + average_blocks.per_scale;
  auto* square_scale = square_blocks.scales;
  const auto of_step = bits_of_step(step);
  for_blocks(parameters.size(), average_blocks, [&](size_t begin, size_t count, float& scale) {
    unpack_signed_block(averages.data() + begin, average, count, scale);
    unpack_squares_block(squares.data() + begin, square, count, *square_scale);
    adam_part(numbers, parameters.data() + begin, gradients.data() + begin, average, square, count);
    scale = largest_magnitude(average, count);
    pack_signed_block(averages.data() + begin, average, count, divisor(scale), of_step);
    *square_scale = largest_magnitude(square, count);
    pack_squares_block(squares.data() + begin, square, count, divisor(*square_scale), of_step);
    ++square_scale;
  });
}

}  // namespace lockstep::trainer
