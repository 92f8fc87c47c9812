// Converts bytes, such as pixels, to floats: (byte / divisor - mean) / deviation, with the bits of
// these operations in float32, as in Python. No LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::data {

struct ByteScale {
  std::optional<double> divide_by, mean, std;  // mean and std: both or none
};

// Thread: any; const.
class ByteScaling {
 public:
  explicit ByteScaling(const ByteScale& scale);

  // Writes as many numbers as there are bytes.
  void apply(std::span<const uint8_t> bytes, float* out) const;

 private:
  // A division by a constant, as a multiplication and a correction.
  struct Divisor {
    float value = 1, inverse = 1;
  };
  void compute(std::span<const uint8_t> bytes, float* out) const;

  std::array<float, 256> table_{};
  Divisor first_, second_;
  float mean_ = 0;
  bool normalizes_ = false;
  bool computes_ = false;  // the CPU supports it, and all 256 results equal the table
};

}  // namespace lockstep::data
