#include "lockstep/sample_random.h"

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr int kRounds = 10;
constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high_half(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const auto product0 = kMultiplier0 * counter[0];
    const auto product1 = kMultiplier1 * counter[2];
    counter = {high_half(product1) ^ counter[1] ^ key[0], low_half(product1),
               high_half(product0) ^ counter[3] ^ key[1], low_half(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

SampleRandom::SampleRandom(uint64_t seed, int64_t epoch, int64_t sample)
    : key_{low_half(seed), high_half(seed)},
      counter_{0, low_half(static_cast<uint64_t>(epoch)), low_half(static_cast<uint64_t>(sample)),
               high_half(static_cast<uint64_t>(sample))} {}

uint32_t SampleRandom::bits() {
  if (used_ == block_.size()) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

double SampleRandom::uniform() {
  const uint64_t high = bits() >> 5, low = bits() >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

uint32_t SampleRandom::below(uint32_t count) {
  check(count >= 1, "count must be at least 1");
  // Rejection sampling: values of an incomplete last round would be too likely.
  const auto whole = 0xFFFFFFFFu - (0xFFFFFFFFu % count + 1) % count;
  auto value = bits();
  while (value > whole) value = bits();
  return value % count;
}

}  // namespace lockstep
