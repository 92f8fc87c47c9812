#include "data/byte_scaling.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <random>

namespace lockstep::data {
namespace {

// Python's results for the 256 bytes, repeated up to a given length.
std::vector<float> expected(const ByteScale& scale, int64_t size) {
  auto values = at::arange(size).remainder(256).to(at::kByte).to(at::kFloat);
  if (scale.divide_by) values = values.div(*scale.divide_by);
  if (scale.mean) values = values.sub(*scale.mean).div(*scale.std);
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + size};
}

std::vector<float> scaled(const ByteScale& scale, int64_t size) {
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  std::vector<float> out(bytes.size() + 1, -1);
  ByteScaling(scale).apply(bytes, out.data());
  CHECK(out.back() == -1);  // nothing is written beyond the end
  out.pop_back();
  return out;
}

TEST_CASE("byte scaling: bit-identical to Python's sequence of operations") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> value(0.01, 300);
  std::vector<ByteScale> scales = {
      {}, {.divide_by = 255}, {.divide_by = 255, .mean = 0.1307, .std = 0.3081}};
  for (const auto mean : {0.485, 0.456, 0.406})
    for (const auto deviation : {0.229, 0.224, 0.225, 1e-30, 1e30})
      scales.push_back({.divide_by = 255, .mean = mean, .std = deviation});
  for (int i = 0; i < 300; ++i)
    scales.push_back(
        {.divide_by = value(random), .mean = value(random) - 150, .std = value(random)});
  for (const auto& scale : scales) CHECK(scaled(scale, 256) == expected(scale, 256));
}

TEST_CASE("byte scaling: any number of bytes, including zero") {
  const ByteScale scale = {.divide_by = 255, .mean = 0.1307, .std = 0.3081};
  for (const int64_t size : {0, 1, 7, 31, 33, 784, 1001})
    CHECK(scaled(scale, size) == expected(scale, size));
}

}  // namespace
}  // namespace lockstep::data
