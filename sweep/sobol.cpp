#include "sweep/sobol.h"

#include <array>
#include <bit>
#include <cstddef>

#include "sweep/random.h"

namespace lockstep::sweep {
namespace {

constexpr int kBits = 32;

// A primitive polynomial, all coefficients as bits, and the first direction numbers of a dimension.
struct DirectionRow {
  uint32_t polynomial;
  std::array<uint32_t, 7> first;
};

// Of the second dimension and the following.
constexpr std::array<DirectionRow, kSobolDimensions - 1> kRows = {{
    {3, {1}},
    {7, {1, 3}},
    {11, {1, 3, 1}},
    {13, {1, 1, 1}},
    {19, {1, 1, 3, 3}},
    {25, {1, 3, 5, 13}},
    {37, {1, 1, 5, 5, 17}},
    {41, {1, 1, 5, 5, 5}},
    {47, {1, 1, 7, 11, 19}},
    {55, {1, 1, 5, 1, 1}},
    {59, {1, 1, 1, 3, 11}},
    {61, {1, 3, 5, 5, 31}},
    {67, {1, 3, 3, 9, 7, 49}},
    {91, {1, 1, 1, 15, 21, 21}},
    {97, {1, 3, 1, 13, 27, 49}},
    {103, {1, 1, 1, 15, 7, 5}},
    {109, {1, 3, 1, 15, 13, 25}},
    {115, {1, 1, 5, 5, 19, 61}},
    {131, {1, 3, 7, 11, 23, 15, 103}},
    {137, {1, 3, 7, 13, 13, 15, 69}},
    {143, {1, 1, 3, 13, 7, 35, 63}},
    {145, {1, 3, 5, 9, 1, 25, 53}},
    {157, {1, 3, 1, 13, 9, 35, 107}},
    {167, {1, 3, 1, 5, 27, 61, 31}},
    {171, {1, 1, 5, 11, 19, 41, 61}},
    {185, {1, 3, 5, 3, 3, 13, 69}},
    {191, {1, 1, 7, 13, 1, 19, 1}},
    {193, {1, 3, 7, 5, 13, 19, 59}},
    {203, {1, 1, 3, 9, 25, 29, 41}},
    {211, {1, 3, 5, 13, 23, 1, 55}},
    {213, {1, 3, 7, 3, 13, 59, 17}},
}};

using Directions = std::array<uint32_t, kBits>;

Directions directions_of(int dimension) {
  Directions v{};
  if (dimension == 0) {
    for (int i = 0; i < kBits; ++i) v[i] = 1u << (kBits - 1 - i);
    return v;
  }
  const auto& row = kRows.at(static_cast<size_t>(dimension) - 1);
  const int degree = std::bit_width(row.polynomial) - 1;
  for (int i = 0; i < kBits; ++i) {
    if (i < degree) {
      v[i] = row.first[i] << (kBits - 1 - i);
      continue;
    }
    v[i] = v[i - degree] ^ (v[i - degree] >> degree);
    for (int k = 1; k < degree; ++k)
      if (row.polynomial >> (degree - k) & 1) v[i] ^= v[i - k];
  }
  return v;
}

}  // namespace

std::vector<double> sobol_point(uint32_t index, int dimensions, uint64_t seed) {
  std::vector<double> point;
  const auto gray = index ^ (index >> 1);
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    const auto directions = directions_of(dimension);
    uint32_t bits = 0;
    for (int i = 0; i < kBits; ++i)
      if (gray >> i & 1) bits ^= directions[i];
    if (seed != 0)
      bits ^= static_cast<uint32_t>(Random(seed, static_cast<uint64_t>(dimension)).bits() >> 32);
    point.push_back(bits * 0x1p-32);
  }
  return point;
}

}  // namespace lockstep::sweep
