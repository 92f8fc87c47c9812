#include "trainer/optimizers/packed_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

}  // namespace lockstep::trainer
