#include "data/packing.h"

#include <catch2/catch.hpp>

#include "data/mixture_plan.h"

namespace lockstep::data {
namespace {

std::vector<std::vector<int64_t>> windows_of(const std::vector<int64_t>& lengths,
                                             int64_t capacity) {
  const PackedWindows windows(lengths, capacity);
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 0; i < windows.size(); ++i)
    all.emplace_back(windows.at(i).begin(), windows.at(i).end());
  return all;
}

TEST_CASE("packing: best fit, longest first") {
  CHECK(windows_of({}, 10).empty());
  CHECK(windows_of({10, 1}, 10) == std::vector<std::vector<int64_t>>{{0}, {1}});
  CHECK(windows_of({4, 6, 7, 3}, 10) == std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}});
  // 3 goes where 3 is left, not into the first window with room.
  CHECK(windows_of({3, 6, 7}, 10) == std::vector<std::vector<int64_t>>{{0, 2}, {1}});
  CHECK(windows_of({2, 2, 2, 2, 2}, 4) == std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("packing: numbers of documents, padding last") {
  std::vector<int64_t> numbers(8);
  write_document_numbers(std::vector<int64_t>{3, 1, 2}, numbers);
  CHECK(numbers == std::vector<int64_t>{0, 0, 0, 1, 2, 2, 3, 3});
}

TEST_CASE("mixture: counts are exact shares") {
  CHECK(mixture_counts({0.7, 0.3}, 10) == std::vector<int64_t>{7, 3});
  CHECK(mixture_counts({1, 1, 1}, 10) == std::vector<int64_t>{4, 3, 3});
  CHECK(mixture_counts({1, 1000}, 10) == std::vector<int64_t>{0, 10});
  CHECK(mixture_total({0.5, 0.5}, {100, 10}) == 200);
  CHECK(mixture_total({0.7, 0.3}, {7, 3}) == 10);
}

TEST_CASE("mixture: parts alternate, samples are spread or repeated") {
  const auto plan = plan_mixture({2, 4}, {8, 3});
  std::vector<uint32_t> first, second;
  for (const auto& [part, sample] : plan) (part == 0 ? first : second).push_back(sample);
  CHECK(first == std::vector<uint32_t>{0, 4});
  CHECK(second == std::vector<uint32_t>{0, 1, 2, 0});
  for (size_t end = 1; end <= plan.size(); ++end) {
    double count = 0;
    for (size_t i = 0; i < end; ++i) count += plan[i].part == 0;
    CHECK(std::abs(count - static_cast<double>(end) / 3) < 1);
  }
}

}  // namespace
}  // namespace lockstep::data
