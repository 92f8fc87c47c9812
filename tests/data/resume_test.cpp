// An epoch that is stopped anywhere and resumed with other ranks and workers equals one that was
// not stopped: the output of the samplers and loaders of all ranks.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <random>

#include "data/block_cache.h"
#include "data/loader/loader.h"
#include "data/sampling/sampler.h"
#include "lockstep/sample_random.h"

namespace lockstep::data {
namespace {

constexpr int64_t kSamples = 1000;  // 41 batches and 16 samples, divisible by 1, 2 and 4 ranks
constexpr int64_t kGlobalBatch = 24;
constexpr int64_t kEpochs = 3;
constexpr uint64_t kSeed = 11;

// Returns the index of each sample and an augmented value of it.
class Numbered final : public Dataset {
 public:
  int64_t size() const override { return kSamples; }
  std::vector<FieldLayout> layout() const override { return {{"noise", at::kDouble, {}}}; }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    auto* noise = fields[0].mutable_data_ptr<double>();
    for (const auto index : request.indices)
      *noise++ = SampleRandom(request.seed, request.epoch, index).uniform();
  }
};

struct Ranks {
  int64_t world = 1, workers = 0;
};

struct Progress {
  int64_t epoch = 0, samples = 0;
  int64_t lanes = 2;  // ranks that began the epoch
};

using Seen = std::vector<std::pair<int64_t, double>>;  // sample and value, in global order

// Runs at most `steps` steps of an epoch with the given numbers of ranks and workers per rank.
void run(Ranks ranks, const SamplerOptions& options, int64_t steps, Progress& progress,
         Seen& seen) {
  const Numbered dataset;
  std::vector<std::unique_ptr<Loader>> loaders;
  std::vector<BatchShares> shares;
  for (int64_t rank = 0; rank < ranks.world; ++rank) {
    DistributedSampler sampler(kSamples, {rank, ranks.world}, options);
    sampler.set_epoch(progress.epoch, progress.lanes);
    shares.push_back(sampler.shares(progress.samples));
    const auto own =
        options.batches.batch_size ? shares.back().batch_size() : kGlobalBatch / ranks.world;
    loaders.push_back(std::make_unique<Loader>(
        dataset, sampler.sequence(progress.samples),
        LoaderOptions{
            .batch_size = own, .workers = ranks.workers, .seed = kSeed, .epoch = progress.epoch}));
  }
  for (int64_t step = 0; step < steps && progress.samples < kSamples; ++step) {
    std::vector<Batch> batches;
    for (auto& loader : loaders) batches.push_back(loader->next().value());
    for (int64_t i = 0; i < batches[0].size(); ++i)
      for (size_t rank = 0; rank < batches.size(); ++rank) {
        if (options.batches.uneven && i >= shares[rank].counted(step)) continue;
        seen.emplace_back(batches[rank].indices.const_data_ptr<int64_t>()[i],
                          batches[rank].at("noise").const_data_ptr<double>()[i]);
      }
    progress.samples = std::min(progress.samples + kGlobalBatch, kSamples);
  }
  if (progress.samples == kSamples) progress = {progress.epoch + 1};
}

Seen run_to_the_end(Ranks ranks, const SamplerOptions& options) {
  Seen seen;
  for (Progress progress; progress.epoch < kEpochs;) run(ranks, options, kSamples, progress, seen);
  return seen;
}

SamplerOptions bucketed() {
  std::vector<double> lengths;
  for (int64_t i = 0; i < kSamples; ++i) lengths.push_back(static_cast<double>(i * 37 % 101));
  return {.seed = kSeed, .buckets = {.lengths = lengths, .batch_size = kGlobalBatch, .window = 8}};
}

SamplerOptions weighted() {
  std::vector<double> weights(kSamples, 1);
  for (size_t i = 0; i < weights.size(); i += 3) weights[i] = 5;
  return {.seed = kSeed, .weights = weights};
}

// Shards of different sizes, one of them empty.
std::vector<int64_t> shard_ends() {
  std::vector<int64_t> ends;
  for (int64_t end = 0, i = 0; end < kSamples; ++i)
    ends.push_back(end = std::min(kSamples, end + i * 31 % 67));
  return ends;
}

SamplerOptions sharded(int64_t buffer) {
  return {.seed = kSeed, .groups = {.ends = shard_ends(), .buffer = buffer}};
}

SamplerOptions weighted_shards() {
  auto options = weighted();
  options.groups = {.ends = shard_ends(), .buffer = 100};
  return options;
}

TEST_CASE("resume: stops at 20 random steps, with other ranks and workers, change nothing") {
  const std::vector<std::pair<const char*, SamplerOptions>> orders = {
      {"shuffled", {.seed = kSeed}},
      {"weighted", weighted()},
      {"weighted, shard by shard", weighted_shards()},
      {"bucketed", bucketed()},
      {"shard by shard", sharded(1)},
      {"shuffle buffer", sharded(150)}};
  for (const auto& [name, options] : orders) {
    INFO(name);
    const auto expected = run_to_the_end({.world = 2, .workers = 2}, options);
    REQUIRE(expected.size() == kEpochs * kSamples);
    std::mt19937 random(5);
    Seen seen;
    Progress progress;
    for (int stop = 0; stop < 20 && progress.epoch < kEpochs; ++stop) {
      const Ranks ranks = {.world = int64_t{1} << random() % 3,
                           .workers = static_cast<int64_t>(random() % 5)};
      run(ranks, options, 1 + static_cast<int64_t>(random() % 9), progress, seen);
    }
    while (progress.epoch < kEpochs)
      run({.world = 4, .workers = 1}, options, kSamples, progress, seen);
    CHECK(seen == expected);
  }
}

// 24 samples per step and 16 in the last one: not divisible by 5, 7, 11 or 13 ranks, and with 17 or
// more, at least one rank has no sample of the last step.
TEST_CASE("resume: uneven batches continue in the same order with any number of ranks") {
  for (auto options : {SamplerOptions{.seed = kSeed}, bucketed(), sharded(1), sharded(150)}) {
    options.batches = {.batch_size = kGlobalBatch, .uneven = true};
    const auto expected = run_to_the_end({.world = 1}, options);
    REQUIRE(expected.size() == kEpochs * kSamples);
    std::mt19937 random(7);
    Seen seen;
    Progress progress;
    while (progress.epoch < kEpochs) {
      // A grouped order keeps the lanes of the ranks that began the epoch.
      const Ranks ranks = {.world = 1 + static_cast<int64_t>(random() % kGlobalBatch),
                           .workers = static_cast<int64_t>(random() % 3)};
      run(ranks, options, 1 + static_cast<int64_t>(random() % 15), progress, seen);
    }
    CHECK(seen == expected);
  }
}

TEST_CASE("resume: the same batches for 0, 1 and 4 workers and for 1 and 2 ranks") {
  const auto expected = run_to_the_end({.world = 1, .workers = 0}, {.seed = kSeed});
  for (const int64_t world : {1, 2})
    for (const int64_t workers : {0, 1, 4})
      CHECK(run_to_the_end({.world = world, .workers = workers}, {.seed = kSeed}) == expected);
}

// A dataset that is larger than memory: a sample is read from its shard.
class Stored final : public Dataset {
 public:
  explicit Stored(std::vector<int64_t> ends)
      : ends_(std::move(ends)), shards_([](size_t shard, SharedWork&) { return shard; }) {}
  int64_t size() const override { return ends_.back(); }
  SampleInfo sample_info() const override { return {.shards = ends_}; }
  std::vector<FieldLayout> layout() const override { return {{"shard", at::kLong, {}}}; }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    auto* out = fields[0].mutable_data_ptr<int64_t>();
    for (const auto index : request.indices)
      shards_.use(static_cast<size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin()),
                  request.nearby_groups,
                  [&](size_t shard) { *out++ = static_cast<int64_t>(shard); });
  }
  const BlockCache<size_t>& cache() const { return shards_; }

 private:
  std::vector<int64_t> ends_;
  mutable BlockCache<size_t> shards_;
};

TEST_CASE("streaming: ranks and workers read each shard once, and hold a bounded number of them") {
  std::vector<int64_t> ends;
  for (int64_t end = 25; end <= 10'000; end += 25) ends.push_back(end);
  for (const int64_t world : {1, 2, 4})
    for (const int64_t workers : {0, 2}) {
      INFO(world << " ranks, " << workers << " workers");
      std::vector<int64_t> all;
      for (int64_t rank = 0; rank < world; ++rank) {
        const Stored dataset(ends);
        const DistributedSampler sampler(
            dataset.size(), {rank, world},
            {.seed = 3, .groups = {.ends = dataset.sample_info().shards, .buffer = 200}});
        Loader loader(dataset, sampler.sequence(), {.batch_size = 16, .workers = workers});
        while (const auto batch = loader.next()) {
          const auto* begin = batch->indices.const_data_ptr<int64_t>();
          all.insert(all.end(), begin, begin + batch->size());
        }
        // 8 shards of 25 samples are shuffled together; 8 more are being read.
        CHECK(dataset.cache().max_blocks() <= 16);
        // Of 400 shards; at both ends of its part, a rank shares a window with another rank.
        CHECK(dataset.cache().loads() <= 400 / world + (world == 1 ? 0 : 8));
      }
      std::ranges::sort(all);
      REQUIRE(all.size() == 10'000);
      for (size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == static_cast<int64_t>(i));
    }
}

TEST_CASE("streaming: resuming late in an epoch does not read earlier data") {
  std::vector<int64_t> ends;
  for (int64_t end = 25; end <= 10'000; end += 25) ends.push_back(end);
  std::vector<double> weights(10'000, 1);
  weights[17] = 40;
  for (const bool weighted : {false, true}) {
    const Stored dataset(ends);
    const DistributedSampler sampler(
        dataset.size(), {1, 2},
        {.seed = 3,
         .weights = weighted ? weights : std::vector<double>{},
         .groups = {.ends = dataset.sample_info().shards, .buffer = 200}});
    Loader loader(dataset, sampler.sequence(9'600), {.batch_size = 16, .workers = 2});
    while (loader.next()) {
    }
    CHECK(dataset.cache().loads() <= 32);  // of 400: two or three windows of 8
  }
}

TEST_CASE("streaming: an order of 10^12 samples needs memory for only one window") {
  std::vector<int64_t> ends;
  for (int64_t i = 1; i <= 100'000; ++i) ends.push_back(i * 10'000'000);
  ends.push_back(ends.back() + 1000);
  const GroupedOrder order({ends}, {.lanes = 4, .buffer = 1, .seed = 7});
  CHECK(order.size() == 1'000'000'001'000);
  const DistributedSampler sampler(1'000'000'001'000, {1, 4}, {.groups = {.ends = ends}});
  CHECK(sampler.sequence().size() == 250'000'000'250);
}

}  // namespace
}  // namespace lockstep::data
