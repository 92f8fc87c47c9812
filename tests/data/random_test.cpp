#include "lockstep/sample_random.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

namespace lockstep::data {
namespace {

using Four = std::array<uint32_t, 4>;

TEST_CASE("random: Philox matches the published test vectors") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const auto ones = 0xffffffffu;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

std::vector<uint32_t> first_bits(uint64_t seed, int64_t epoch, int64_t sample) {
  SampleRandom random(seed, epoch, sample);
  std::vector<uint32_t> bits(10);
  std::ranges::generate(bits, [&] { return random.bits(); });
  return bits;
}

TEST_CASE("random: a stream depends on seed, epoch and sample only") {
  const auto bits = first_bits(1, 2, 3);
  CHECK(bits == first_bits(1, 2, 3));
  for (const auto& other : {first_bits(0, 2, 3), first_bits(1, 3, 3), first_bits(1, 2, 4),
                            first_bits(1 | 1ull << 40, 2, 3), first_bits(1, 2, 3 | 1ll << 40)})
    for (size_t i = 0; i < bits.size(); ++i) CHECK(bits[i] != other[i]);
}

TEST_CASE("random: numbers are in range and uniformly distributed") {
  SampleRandom random(7, 0, 0);
  double sum = 0, least = 1, most = 0;
  std::array<int, 3> thirds{};
  for (int i = 0; i < 30'000; ++i) {
    const auto value = random.uniform();
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
    ++thirds[random.below(3)];
  }
  CHECK(least >= 0);
  CHECK(most < 1);
  CHECK(sum / 30'000 == Approx(0.5).margin(0.01));
  for (const auto count : thirds) CHECK(count == Approx(10'000).margin(400));
  CHECK(random.uniform(2, 2) == 2);
  CHECK(random.below(1) == 0);
}

}  // namespace
}  // namespace lockstep::data
