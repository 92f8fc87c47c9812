// Stopped anywhere and continued with other ranks and workers, an epoch is the epoch that was never
// stopped: what samplers and loaders of all ranks give together.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <random>

#include "data/loader.h"
#include "data/random.h"
#include "data/sampler.h"

namespace lockstep {
namespace {

constexpr int64_t kSamples = 1000;  // 41 batches and 16 samples, which 1, 2 and 4 ranks divide
constexpr int64_t kGlobalBatch = 24;
constexpr int64_t kEpochs = 3;
constexpr uint64_t kSeed = 11;

// Gives the number of each sample and an augmented value of it.
class Numbered final : public Dataset {
 public:
  int64_t size() const override { return kSamples; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    return gather(*this, {.indices = indices});
  }
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
};

using Seen = std::vector<std::pair<int64_t, double>>;  // sample and value, in global order

// Runs at most `steps` steps of an epoch as so many ranks with so many workers each.
void run(Ranks ranks, const SamplerOptions& options, int64_t steps, Progress& progress,
         Seen& seen) {
  const Numbered dataset;
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int64_t rank = 0; rank < ranks.world; ++rank) {
    DistributedSampler sampler(kSamples, {rank, ranks.world}, options);
    sampler.set_epoch(progress.epoch);
    loaders.push_back(
        std::make_unique<Loader>(dataset, sampler.indices(progress.samples),
                                 LoaderOptions{.batch_size = kGlobalBatch / ranks.world,
                                               .workers = ranks.workers,
                                               .seed = kSeed,
                                               .epoch = progress.epoch}));
  }
  for (int64_t step = 0; step < steps && progress.samples < kSamples; ++step) {
    std::vector<Batch> batches;
    for (auto& loader : loaders) batches.push_back(loader->next().value());
    for (int64_t i = 0; i < batches[0].size(); ++i)
      for (const auto& batch : batches)
        seen.emplace_back(batch.indices.const_data_ptr<int64_t>()[i],
                          batch.at("noise").const_data_ptr<double>()[i]);
    progress.samples = std::min(progress.samples + kGlobalBatch, kSamples);
  }
  if (progress.samples == kSamples) progress = {progress.epoch + 1, 0};
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

TEST_CASE("resume: stopped at 20 random steps, with other ranks and workers, nothing changes") {
  const std::vector<std::pair<const char*, SamplerOptions>> orders = {
      {"shuffled", {.seed = kSeed}}, {"weighted", weighted()}, {"bucketed", bucketed()}};
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

TEST_CASE("resume: the same batches for 0, 1 and 4 workers and for 1 and 2 ranks") {
  const auto expected = run_to_the_end({.world = 1, .workers = 0}, {.seed = kSeed});
  for (const int64_t world : {1, 2})
    for (const int64_t workers : {0, 1, 4})
      CHECK(run_to_the_end({.world = world, .workers = workers}, {.seed = kSeed}) == expected);
}

}  // namespace
}  // namespace lockstep
