#include "data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/data/error_of.h"

namespace lockstep {
namespace {

std::vector<int64_t> indices_of(int64_t n, Shard shard, SamplerOptions options, int64_t epoch = 0) {
  DistributedSampler sampler(n, shard, options);
  sampler.set_epoch(epoch);
  const auto indices = sampler.indices();
  if (static_cast<int64_t>(indices.size()) != sampler.num_samples())
    throw std::logic_error("num_samples() is wrong");
  return indices;
}

TEST_CASE("sampler: the indices that Python's DistributedSampler gave") {
  const auto cases = nlohmann::json::parse(std::ifstream(LOCKSTEP_GOLDEN_DIR "/sampler.json"));
  REQUIRE(cases.size() >= 9);
  for (const auto& golden : cases) {
    INFO(golden.dump());
    for (int64_t rank = 0; rank < golden["world"]; ++rank) {
      const SamplerOptions options{
          .shuffle = golden["shuffle"], .seed = golden["seed"], .drop_last = golden["drop_last"]};
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

TEST_CASE("sampler: drop_last gives no sample twice") {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto indices = indices_of(11, {rank, 4}, {.drop_last = true});
    CHECK(indices.size() == 2);
    all.insert(all.end(), indices.begin(), indices.end());
  }
  CHECK(std::set<int64_t>(all.begin(), all.end()).size() == 8);
}

TEST_CASE("sampler: epochs and seeds change the order, asking again does not") {
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

TEST_CASE("sampler: an empty dataset and an impossible rank are errors of the input") {
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

}  // namespace
}  // namespace lockstep
