#include "distributed/shm/reduction.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace lockstep::distributed::shm;

namespace {

template <class T>
std::vector<T> combined(const std::vector<std::vector<T>>& sources, ElementType type,
                        Reduction reduction) {
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources)
    pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<T> out(sources.front().size());
  combine(reinterpret_cast<std::byte*>(out.data()), pointers, out.size(), type, reduction);
  return out;
}

// Reduces one element per source.
template <class T>
T of(const std::vector<T>& elements, ElementType type, Reduction reduction) {
  std::vector<std::vector<T>> sources;
  for (const auto element : elements) sources.push_back({element});
  return combined(sources, type, reduction)[0];
}

uint16_t half_of(double value, ElementType type) {  // by searching: independent of the code
  uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x8000; ++bits) {
    const uint32_t exponent = type == ElementType::Float16 ? bits >> 10 : bits >> 7;
    const uint32_t fraction = type == ElementType::Float16 ? bits & 0x3ff : bits & 0x7f;
    const int places = type == ElementType::Float16 ? 10 : 7;
    const int bias = type == ElementType::Float16 ? 15 : 127;
    if (exponent == (type == ElementType::Float16 ? 0x1fu : 0xffu)) break;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - places)
                                           : std::ldexp(fraction + (1 << places),
                                                        static_cast<int>(exponent) - bias - places);
    const double here = std::abs(std::abs(value) - magnitude);
    if (here < distance || (here == distance && bits % 2 == 0)) {
      distance = here;
      best = static_cast<uint16_t>(bits);
    }
  }
  return static_cast<uint16_t>(best | (value < 0 ? 0x8000 : 0));
}

}  // namespace

TEST_CASE("reduction: basic operations") {
  using enum Reduction;
  CHECK(of<float>({1.5f, -2, 4}, ElementType::Float32, Sum) == 3.5f);
  CHECK(of<float>({1, 2, 4}, ElementType::Float32, Average) == 7.0f / 3);
  CHECK(of<float>({1, 2}, ElementType::Float32, Average) == 1.5f);
  CHECK(of<double>({1.5, -2, 4}, ElementType::Float64, Product) == -12);
  CHECK(of<double>({1.5, -2, 4}, ElementType::Float64, Min) == -2);
  CHECK(of<double>({1.5, -2, 4}, ElementType::Float64, Max) == 4);
  CHECK(of<int64_t>({5, -7, 1}, ElementType::Int64, Min) == -7);
  CHECK(of<int32_t>({6, 3, 7}, ElementType::Int32, BitAnd) == 2);
  CHECK(of<int32_t>({4, 1, 1}, ElementType::Int32, BitOr) == 5);
  CHECK(of<uint8_t>({4, 1, 1}, ElementType::UInt8, BitXor) == 4);
}

TEST_CASE("reduction: integers of any width wrap around") {
  CHECK(of<int8_t>({127, 1}, ElementType::Int8, Reduction::Sum) == -128);
  CHECK(of<uint8_t>({255, 2}, ElementType::UInt8, Reduction::Sum) == 1);
  CHECK(of<int16_t>({-32768, -1}, ElementType::Int16, Reduction::Sum) == 32767);
  CHECK(of<int16_t>({300, 300}, ElementType::Int16, Reduction::Product) == int16_t(90000 - 65536));
  const auto most = std::numeric_limits<int64_t>::max();
  CHECK(of<int64_t>({most, 1}, ElementType::Int64, Reduction::Sum) ==
        std::numeric_limits<int64_t>::min());
}

TEST_CASE("reduction: booleans stay booleans") {
  using enum Reduction;
  for (const auto reduction : {Sum, Max, BitOr}) {
    CHECK(of<uint8_t>({1, 1}, ElementType::Bool, reduction) == 1);
    CHECK(of<uint8_t>({0, 1}, ElementType::Bool, reduction) == 1);
    CHECK(of<uint8_t>({0, 0}, ElementType::Bool, reduction) == 0);
  }
  for (const auto reduction : {Product, Min, BitAnd}) {
    CHECK(of<uint8_t>({1, 1}, ElementType::Bool, reduction) == 1);
    CHECK(of<uint8_t>({0, 1}, ElementType::Bool, reduction) == 0);
  }
}

TEST_CASE("reduction: a NaN of any rank propagates to the result") {
  const double nan = std::nan("");
  for (const auto reduction : {Reduction::Sum, Reduction::Min, Reduction::Max})
    for (const auto& values : {std::vector{nan, 1.0}, std::vector{1.0, nan}})
      CHECK(std::isnan(of<double>(values, ElementType::Float64, reduction)));
}

TEST_CASE("reduction: half precision rounds once, to nearest, with subnormals and overflow") {
  for (const auto type : {ElementType::Float16, ElementType::BFloat16}) {
    const bool is_float16 = type == ElementType::Float16;
    const uint16_t one = half_of(1, type), tiny = 1;
    CHECK(of<uint16_t>({one, one}, type, Reduction::Sum) == half_of(2, type));
    CHECK(of<uint16_t>({tiny, tiny, tiny}, type, Reduction::Sum) == 3);
    // 1 + u/2 + u/2, where u is the unit at 1: rounding after every sum would stay at 1.
    const double unit = is_float16 ? 0x1p-10 : 0x1p-7;
    const auto half_unit = half_of(unit / 2, type);
    CHECK(of<uint16_t>({one, half_unit, half_unit}, type, Reduction::Sum) ==
          half_of(1 + unit, type));
    const uint16_t infinity = is_float16 ? 0x7c00 : 0x7f80;
    const auto largest = static_cast<uint16_t>(infinity - 1);
    CHECK(of<uint16_t>({largest, largest}, type, Reduction::Sum) == infinity);
    CHECK(of<uint16_t>({infinity, static_cast<uint16_t>(infinity | 0x8000)}, type, Reduction::Sum) >
          infinity);
    for (const double value : {0.1, -3.3, 1e-5, 65000.0, -6.1e-5, 5.96e-8})
      CHECK(of<uint16_t>({half_of(value, type), 0}, type, Reduction::Sum) == half_of(value, type));
  }
}

TEST_CASE("reduction: vectorized loops agree with single elements for every half value") {
  std::vector<uint16_t> all, other;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.push_back(static_cast<uint16_t>(bits));
    other.push_back(static_cast<uint16_t>(bits * 40503u + 77));
  }
  for (const auto type : {ElementType::Float16, ElementType::BFloat16}) {
    const auto together = combined<uint16_t>({all, other}, type, Reduction::Sum);
    const uint16_t infinity = type == ElementType::Float16 ? 0x7c00 : 0x7f80;
    int wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto alone = of<uint16_t>({all[i], other[i]}, type, Reduction::Sum);
      const bool both_nan = (alone & 0x7fff) > infinity && (together[i] & 0x7fff) > infinity;
      wrong += alone != together[i] && !both_nan;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("reduction: is_defined covers types and operations") {
  CHECK_FALSE(is_defined(Reduction::Average, ElementType::Int32));
  CHECK_FALSE(is_defined(Reduction::BitAnd, ElementType::Float32));
  CHECK_FALSE(is_defined(Reduction::Sum, ElementType::Bytes));
  CHECK(is_defined(Reduction::Average, ElementType::BFloat16));
  CHECK(is_defined(Reduction::BitXor, ElementType::Bool));
}

TEST_CASE("reduction: the sum of chunk c starts at rank c-1 and ends at rank c") {
  const SumOrder order(4, 1000, 4);
  std::vector<int> ranks;
  for (int i = 0; i < 4; ++i) ranks.push_back(order.rank_at(1, i));
  CHECK(ranks == std::vector<int>{0, 3, 2, 1});
  std::vector<size_t> edges;
  order.for_each_chunk(100, 1000, [&](int chunk, size_t begin, size_t end) {
    edges.insert(edges.end(), {static_cast<size_t>(chunk), begin, end});
  });
  // 8 segments of 125 elements, two per rank.
  CHECK(edges == std::vector<size_t>{0, 100, 250, 1, 250, 500, 2, 500, 750, 3, 750, 1000});
}

TEST_CASE("reduction: in a tree, sums of halves add up to the sum of all, to the bit") {
  constexpr size_t kCount = 2500;
  for (const size_t num_sources : {1, 2, 4, 8}) {
    std::vector<std::vector<float>> sources(num_sources, std::vector<float>(kCount));
    std::vector<const std::byte*> pointers;
    for (size_t k = 0; k < num_sources; ++k) {
      for (size_t i = 0; i < kCount; ++i)
        sources[k][i] = static_cast<float>((i * 37 + k * k * 411) % 1001) / 7.0f;
      pointers.push_back(reinterpret_cast<const std::byte*>(sources[k].data()));
    }
    const auto sum_of = [&](std::span<const std::byte* const> some, double factor) {
      std::vector<float> sum(kCount);
      add_scaled(reinterpret_cast<std::byte*>(sum.data()), some, kCount, ElementType::Float32,
                 factor, SumKind::Tree);
      return sum;
    };
    const auto whole = sum_of(pointers, 0.125);
    if (num_sources == 1) {
      CHECK(whole[3] == sources[0][3] * 0.125f);
      continue;
    }
    const auto half = num_sources / 2;
    const auto left = sum_of(std::span(pointers).first(half), 0.125);
    const auto right = sum_of(std::span(pointers).last(half), 0.125);
    const std::vector<const std::byte*> halves = {reinterpret_cast<const std::byte*>(left.data()),
                                                  reinterpret_cast<const std::byte*>(right.data())};
    CHECK(sum_of(halves, 1) == whole);
  }
}

TEST_CASE("reduction: add_scaled equals scale, then sum, also in place") {
  const auto check_type = [](auto example, ElementType type) {
    using T = decltype(example);
    for (const size_t num_sources : {1, 2, 3}) {
      std::vector<std::vector<T>> sources(num_sources), scaled;
      for (size_t i = 0; i < 2500; ++i)
        for (size_t k = 0; k < num_sources; ++k)
          sources[k].push_back(sizeof(T) == 2 ? static_cast<T>(0x3c00 + (i * 7 + k * 11) % 512)
                                              : static_cast<T>((i * 37 + k) % 1001) / T(7));
      for (const auto& source : sources) {
        scaled.push_back(source);
        auto* const data = reinterpret_cast<std::byte*>(scaled.back().data());
        scale(data, data, source.size(), type, 1.0 / 3);
      }
      const auto expected = combined(scaled, type, Reduction::Sum);
      std::vector<const std::byte*> pointers;
      for (const auto& source : sources)
        pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
      auto* const out = reinterpret_cast<std::byte*>(sources.back().data());
      add_scaled(out, pointers, sources.back().size(), type, 1.0 / 3);
      CHECK(sources.back() == expected);
    }
  };
  check_type(float{}, ElementType::Float32);
  check_type(double{}, ElementType::Float64);
  check_type(uint16_t{}, ElementType::Float16);
  check_type(uint16_t{}, ElementType::BFloat16);
}
