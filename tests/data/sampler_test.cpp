#include "data/sampling/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

std::vector<int64_t> indices_of(int64_t n, Shard shard, SamplerOptions options, int64_t epoch = 0) {
  DistributedSampler sampler(n, shard, options);
  sampler.set_epoch(epoch);
  const auto indices = sampler.indices();
  if (static_cast<int64_t>(indices.size()) != sampler.num_samples())
    throw std::logic_error("num_samples() is wrong");
  return indices;
}

TEST_CASE("sampler: the indices equal those of Python's DistributedSampler") {
  const auto cases = nlohmann::json::parse(std::ifstream(LOCKSTEP_GOLDEN_DIR "/sampler.json"));
  REQUIRE(cases.size() >= 9);
  for (const auto& golden : cases) {
    INFO(golden.dump());
    for (int64_t rank = 0; rank < golden["world"]; ++rank) {
      const SamplerOptions options{.shuffle = golden["shuffle"],
                                   .seed = golden["seed"],
                                   .batches = {.drop_last = golden["drop_last"]}};
      const auto indices =
          indices_of(golden["n"], {rank, golden["world"]}, options, golden["epoch"]);
      CHECK(indices == golden["ranks"][static_cast<size_t>(rank)].get<std::vector<int64_t>>());
    }
  }
}

TEST_CASE("sampler: every rank gets the same count and together they see every sample") {
  for (const int64_t n : {1, 2, 7, 8, 9, 100})
    for (const int64_t world : {1, 2, 3, 8}) {
      std::set<int64_t> seen;
      std::set<size_t> counts;
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto indices = indices_of(n, {rank, world}, {.seed = 5}, 3);
        counts.insert(indices.size());
        seen.insert(indices.begin(), indices.end());
      }
      INFO(n << " samples, " << world << " ranks");
      CHECK(counts == std::set<size_t>{static_cast<size_t>((n + world - 1) / world)});
      CHECK(static_cast<int64_t>(seen.size()) == n);
      CHECK(*seen.begin() == 0);
      CHECK(*seen.rbegin() == n - 1);
    }
}

TEST_CASE("sampler: drop_last repeats no sample") {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto indices = indices_of(11, {rank, 4}, {.batches = {.drop_last = true}});
    CHECK(indices.size() == 2);
    all.insert(all.end(), indices.begin(), indices.end());
  }
  CHECK(std::set<int64_t>(all.begin(), all.end()).size() == 8);
}

TEST_CASE("sampler: epochs and seeds change the order, repeated calls do not") {
  const SamplerOptions options{.seed = 1};
  CHECK(indices_of(50, {}, options, 0) == indices_of(50, {}, options, 0));
  CHECK(indices_of(50, {}, options, 0) != indices_of(50, {}, options, 1));
  CHECK(indices_of(50, {}, options, 0) != indices_of(50, {}, {.seed = 9}, 0));
}

TEST_CASE("sampler: the exact split gives every sample once, also with more ranks than samples") {
  CHECK(exact_split(7, {0, 3}) == std::vector<int64_t>{0, 3, 6});
  CHECK(exact_split(7, {1, 3}) == std::vector<int64_t>{1, 4});
  CHECK(exact_split(7, {2, 3}) == std::vector<int64_t>{2, 5});
  CHECK(exact_split(2, {1, 5}) == std::vector<int64_t>{1});
  CHECK(exact_split(2, {4, 5}).empty());
}

TEST_CASE("sampler: an empty dataset and an impossible rank are input errors") {
  CHECK(error_of([] {
          DistributedSampler(0, {0, 1});
        }) == "config: the dataset is empty: at least one sample is needed");
  CHECK(error_of([] {
          exact_split(0, {0, 1});
        }) == "config: the dataset is empty: at least one sample is needed");
  CHECK(error_of([] {
          DistributedSampler(9, {3, 3});
        }) == "config: rank 3 is outside a world of 3");
  CHECK(error_of([] {
          DistributedSampler(9, {-1, 3});
        }) == "config: rank -1 is outside a world of 3");
  CHECK(error_of([] { exact_split(9, {0, 0}); }) == "config: rank 0 is outside a world of 0");
}

// The samples of all ranks after the first `done` ones, in global order, without padding.
std::vector<int64_t> global_order(int64_t n, int64_t world, const SamplerOptions& options,
                                  int64_t done = 0, std::optional<int64_t> lanes = {}) {
  std::vector<std::vector<int64_t>> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(n, {rank, world}, options);
    sampler.set_epoch(3, lanes);
    ranks.push_back(sampler.indices(done));
  }
  std::vector<int64_t> order;
  for (size_t i = 0; i < ranks[0].size(); ++i)
    for (const auto& rank : ranks) order.push_back(rank[i]);
  order.resize(static_cast<size_t>(n - done));
  return order;
}

std::vector<double> lengths_of(int64_t n) {
  std::vector<double> lengths;
  for (int64_t i = 0; i < n; ++i) lengths.push_back(static_cast<double>(i * 37 % 101));
  return lengths;
}

TEST_CASE("sampler: a pass resumes at any position, with any number of ranks") {
  const std::vector<SamplerOptions> all = {
      {.seed = 5},
      {.shuffle = false},
      {.seed = 5, .weights = lengths_of(203)},
      {.seed = 5, .buckets = {.lengths = lengths_of(203), .batch_size = 8, .window = 4}}};
  for (const auto& options : all) {
    const auto whole = global_order(203, 1, options);
    for (const int64_t world : {1, 2, 3, 4})
      for (const int64_t done : {0, 1, 8, 64, 202, 203}) {
        INFO(world << " ranks, " << done << " done");
        CHECK(global_order(203, world, options, done) ==
              std::vector<int64_t>(whole.begin() + done, whole.end()));
      }
  }
}

TEST_CASE("sampler: a grouped order with the same lanes resumes with any number of ranks") {
  const SamplerOptions options = {.seed = 5, .groups = {.ends = {50, 100, 150, 204}}};
  const auto whole = global_order(204, 2, options);
  for (const int64_t world : {1, 2, 4})
    for (const int64_t done : {0, 64, 200}) {
      INFO(world << " ranks, " << done << " done");
      CHECK(global_order(204, world, options, done, 2) ==
            std::vector<int64_t>(whole.begin() + done, whole.end()));
    }
  auto sorted = whole;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) CHECK(sorted[i] == static_cast<int64_t>(i));
}

TEST_CASE("sampler: weighted sampling draws in proportion to the weights") {
  std::vector<double> weights(10'000, 1);
  for (size_t i = 0; i < 1000; ++i) weights[i] = 9;
  weights[9999] = 0;
  const auto order = global_order(10'000, 2, {.seed = 1, .weights = weights});
  const auto heavy = std::ranges::count_if(order, [](int64_t index) { return index < 1000; });
  CHECK(heavy > 4800);
  CHECK(heavy < 5200);
  CHECK(std::ranges::count(order, 9999) == 0);
}

TEST_CASE("sampler: weighted samples are ordered group by group") {
  const std::vector<int64_t> ends = {40, 40, 100, 150, 203};
  const auto group_of = [&](int64_t index) { return std::ranges::upper_bound(ends, index); };
  const SamplerOptions drawn = {.seed = 5, .weights = lengths_of(203)};
  for (const int64_t buffer : {1, 80}) {
    auto options = drawn;
    options.groups = {.ends = ends, .buffer = buffer};
    const auto grouped = global_order(203, 1, options);
    for (const int64_t world : {1, 2, 3})
      for (const int64_t done : {0, 50})
        CHECK(global_order(203, world, options, done) ==
              std::vector<int64_t>(grouped.begin() + done, grouped.end()));
    int64_t changes = 0;
    for (size_t i = 1; i < grouped.size(); ++i)
      changes += group_of(grouped[i]) != group_of(grouped[i - 1]);
    if (buffer == 1)
      CHECK(changes == 3);  // of four groups
    else
      CHECK(changes > 20);  // several are shuffled together
    CHECK_FALSE(std::ranges::is_sorted(grouped.begin(), grouped.begin() + 40));
    auto sorted = grouped, expected = global_order(203, 1, drawn);
    std::ranges::sort(sorted);
    std::ranges::sort(expected);
    CHECK(sorted == expected);
    DistributedSampler sampler(203, {}, options);
    CHECK(sampler.sequence().nearby_groups() == (buffer == 1 ? 1 : 4));
  }
}

TEST_CASE("sampler: buckets keep every sample and group samples of similar length") {
  const auto lengths = lengths_of(1003);
  const auto spread = [&](const std::vector<int64_t>& order) {
    double sum = 0;
    for (size_t begin = 0; begin + 16 <= order.size(); begin += 16) {
      double least = 1e9, most = 0;
      for (size_t i = begin; i < begin + 16; ++i) {
        least = std::min(least, lengths[static_cast<size_t>(order[i])]);
        most = std::max(most, lengths[static_cast<size_t>(order[i])]);
      }
      sum += most - least;
    }
    return sum;
  };
  const auto plain = global_order(1003, 1, {.seed = 1});
  auto bucketed = global_order(
      1003, 1, {.seed = 1, .buckets = {.lengths = lengths, .batch_size = 16, .window = 20}});
  CHECK(spread(bucketed) < spread(plain) / 8);
  // Batches are not sorted by length.
  const auto first_length = [&](size_t batch) {
    return lengths[static_cast<size_t>(bucketed[batch * 16])];
  };
  int rises = 0;
  for (size_t batch = 1; batch < 62; ++batch)
    rises += first_length(batch) > first_length(batch - 1);
  CHECK(rises > 15);
  std::ranges::sort(bucketed);
  for (size_t i = 0; i < bucketed.size(); ++i) CHECK(bucketed[i] == static_cast<int64_t>(i));
}

TEST_CASE("sampler: invalid weights and lengths are errors") {
  const auto error = [](SamplerOptions options) {
    return error_of([&] { DistributedSampler(3, {0, 1}, options); });
  };
  CHECK(error({.weights = {1, 2}}) == "config: 2 weights for 3 samples");
  CHECK(error({.weights = {1, -2, 3}}) == "config: the weight of sample 1 is -2");
  CHECK(error({.weights = {0, 0, 0}}) == "config: the weights of all samples are 0");
  CHECK(error({.buckets = {.lengths = {1}, .window = 2}}) == "config: 1 lengths for 3 samples");
}

}  // namespace
}  // namespace lockstep::data
