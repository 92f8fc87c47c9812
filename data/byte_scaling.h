// Bytes that become floats, such as pixels: (byte / divisor - mean) / deviation, with the bits that
// these operations have one after the other in float32, as in Python. No LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::data {

struct ByteScale {
  std::optional<double> divide_by, mean, std;  // mean and std: both or none
};

// Thread: const and safe to use from several threads at once.
class ByteScaling {
 public:
  explicit ByteScaling(const ByteScale& scale);

  // Writes as many numbers as there are bytes.
  void apply(std::span<const uint8_t> bytes, float* out) const;

 private:
  // A division by a constant, as a multiplication and its correction.
  struct Divisor {
    float value = 1, inverse = 1;
  };
  void compute(std::span<const uint8_t> bytes, float* out) const;

  std::array<float, 256> table_{};
  Divisor first_, second_;
  float mean_ = 0;
  bool normalizes_ = false;
  bool computes_ = false;  // the processor can, and all 256 results are those of the table
};

}  // namespace lockstep::data
