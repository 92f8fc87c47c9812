#include "data/loader/shards_ahead.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "data/loader/loader.h"
#include "data/sampling/sampler.h"
#include "data/shard_error.h"
#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

void read_all(Loader& loader) {
  while (loader.next()) continue;
}

// All of its samples are in a shard that cannot be read.
class BadShard final : public Dataset {
 public:
  int64_t size() const override { return 16; }
  Batch get_batch(std::span<const int64_t>) const override {
    throw ShardError("0.tar: it is truncated");
  }
};

TEST_CASE("loader: a bad shard ends the pass also where bad samples are skipped") {
  const BadShard dataset;
  const auto bad = tolerated(1000);
  LoaderOptions options{.batch_size = 4};
  options.bad_samples = bad;
  Loader loader(dataset, {3, 1, 2, 0}, options);
  CHECK(error_of([&] { loader.next(); }).find("0.tar: it is truncated") != std::string::npos);
  CHECK(bad->count() == 0);
}

// A thousand samples in ten shards, of which the last one is empty; notes what is to be fetched.
class FetchedShards final : public Dataset {
 public:
  int64_t size() const override { return 1000; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    return {.fields = {},
            .indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()))};
  }
  SampleInfo sample_info() const override {
    return {.shards = {100, 200, 300, 400, 500, 600, 700, 800, 1000, 1000},
            .fetch_ahead = [this](const auto& shards) { calls.push_back(shards); }};
  }
  mutable std::vector<std::vector<size_t>> calls;
};

TEST_CASE("loader: shards are fetched in the order in which the samples of a pass need them") {
  const FetchedShards dataset;
  const auto fetched = [&](IndexSequence samples) {
    dataset.calls.clear();
    Loader loader(dataset, std::move(samples), {.batch_size = 10, .workers = 1});
    read_all(loader);
    REQUIRE(dataset.calls.size() == 1);
    return dataset.calls[0];
  };
  CHECK(fetched({950, 3, 250, 4, 299, 850, 199}) == std::vector<size_t>{8, 0, 2, 1});
  // An epoch in shuffled groups, from the start and resumed.
  SamplerOptions options{.seed = 3, .batches = {.batch_size = 10}};
  options.groups = {.ends = dataset.sample_info().shards, .buffer = 100};
  const DistributedSampler sampler(1000, {}, options);
  for (const int64_t done : {0, 350}) {
    std::vector<size_t> used;
    for (const auto index : sampler.indices(done)) {
      const auto shard = static_cast<size_t>(std::min<int64_t>(index / 100, 8));
      if (std::ranges::find(used, shard) == used.end()) used.push_back(shard);
    }
    CHECK(fetched(sampler.sequence(done)) == used);
    CHECK(used.size() < (done == 0 ? 10 : 8));
  }
}

TEST_CASE("loader: of a long pass, shards are fetched when their samples come near") {
  const FetchedShards dataset;
  const auto half = ShardsAhead::kAhead / 2;
  std::vector<int64_t> samples(static_cast<size_t>(3 * half), 0);
  samples.back() = 999;
  Loader loader(dataset, samples, {.batch_size = half});
  read_all(loader);
  CHECK(dataset.calls == std::vector<std::vector<size_t>>{{0}, {0, 8}, {0, 8}});
}

}  // namespace
}  // namespace lockstep::data
