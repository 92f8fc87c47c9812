// A random stream as a function of two numbers, the same on every machine. SplitMix64; source:
// Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
#pragma once

#include <cstdint>

namespace lockstep::sweep {

// Thread: one at a time.
class Random {
 public:
  Random(uint64_t seed, uint64_t stream) : state_(mix(seed) ^ mix(stream + kStep)) {}

  uint64_t bits() { return mix(state_ += kStep); }
  // In [0, 1), 53 random bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace lockstep::sweep
