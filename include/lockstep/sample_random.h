// Random numbers for a sample, as a function of seed, epoch and sample index, so that augmentation
// is the same in every worker, on every rank and after a resume. No LibTorch.
//
// Example:
//   bool is_flipped(uint64_t seed, int64_t epoch, int64_t sample) {
//     return lockstep::SampleRandom(seed, epoch, sample).uniform() < 0.5;
//   }
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

// The counter-based generator Philox 4x32-10: 128 random bits for each counter and key.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); its test vectors
// are in tests/data/random_test.cpp.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The random stream of one sample in one epoch. Equal arguments yield equal streams on every
// machine.
//
// Thread: not thread-safe; use one object per thread. Construction is cheap.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, int64_t epoch, int64_t sample);

  uint32_t bits();

  // In [0, 1), 53 random bits.
  double uniform();

  // In [low, high); `low` if both are equal.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Uniform in [0, count); `count` at least 1.
  uint32_t below(uint32_t count);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  size_t used_ = 4;  // numbers of block_ that were already returned
};

}  // namespace lockstep
