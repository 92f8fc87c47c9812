// Loads data without training, stops and resumes: resume FILE. FILE has the `data:` section of a
// run file without evaluation, with a batch_size that is divisible by 1 to 4 ranks and a number of
// samples that is divisible by it. Runs three epochs on 2 ranks with 2 workers each; then again,
// stopped at 20 random steps and resumed with other numbers of ranks and workers. Prints the number
// of samples with the same order and values, or fails.
#include <ATen/ATen.h>

#include <functional>
#include <iostream>
#include <random>

#include "data/loader/loader.h"
#include "data/sampling/sampling.h"
#include "data/sampling/split.h"
#include "lockstep/config_fields.h"
#include "tests/printer/commands.h"

namespace lockstep::printer {
namespace {

constexpr int64_t kEpochs = 3, kFirstWorld = 2, kSeed = 11;
constexpr int kStops = 20;

struct Data {
  Part<Dataset> train{dataset_registry()};
  data::SplitConfig split;
  data::LoaderConfig loader;
};

template <class V>
void fields(V& v, Data& c) {
  v("train", c.train, "", required());
  v("split", c.split, "");
  fields(v, c.loader);
}

struct Ranks {
  int64_t world = 1, workers = 0;
};

struct Progress {
  int64_t epoch = 0, samples = 0;
};

// Sample and a hash of its values.
using Seen = std::vector<std::pair<int64_t, size_t>>;

class Epochs {
 public:
  Epochs(const Dataset& dataset, const data::LoaderConfig& config)
      : dataset_(dataset),
        batch_(*config.batch_size),
        lanes_(config.shuffle_lanes.value_or(kFirstWorld)),
        options_(sampler_options(config, dataset, kSeed, {.batch_size = batch_})) {}

  // At most `steps` steps of an epoch.
  void run(Ranks ranks, int64_t steps, Progress& progress, Seen& seen) const {
    auto loaders = loaders_of(ranks, progress);
    for (int64_t step = 0; step < steps && progress.samples < dataset_.size(); ++step) {
      std::vector<Batch> batches;
      for (auto& loader : loaders) batches.push_back(loader->next().value());
      for (int64_t row = 0; row < batches[0].size(); ++row)
        for (const auto& batch : batches)
          seen.emplace_back(batch.indices.const_data_ptr<int64_t>()[row], hash_of(batch, row));
      progress.samples += batch_;
    }
    if (progress.samples == dataset_.size()) progress = {progress.epoch + 1};
  }

 private:
  std::vector<std::unique_ptr<data::Loader>> loaders_of(Ranks ranks,
                                                        const Progress& progress) const {
    std::vector<std::unique_ptr<data::Loader>> loaders;
    for (int64_t rank = 0; rank < ranks.world; ++rank) {
      data::DistributedSampler sampler(dataset_.size(), {rank, ranks.world}, options_);
      sampler.set_epoch(progress.epoch, lanes_);
      loaders.push_back(
          std::make_unique<data::Loader>(dataset_, sampler.sequence(progress.samples),
                                         data::LoaderOptions{.batch_size = batch_ / ranks.world,
                                                             .workers = ranks.workers,
                                                             .seed = kSeed,
                                                             .epoch = progress.epoch}));
    }
    return loaders;
  }

  // The padding of a sample depends on its batch, which differs with the number of ranks.
  size_t hash_of(const Batch& batch, int64_t row) const {
    if (dataset_.layout().empty()) return 0;
    std::string bytes;
    for (const auto& [name, tensor] : batch.fields) {
      const auto row_values = tensor[row].contiguous();
      bytes.append(static_cast<const char*>(row_values.const_data_ptr()), row_values.nbytes());
    }
    return std::hash<std::string>{}(bytes);
  }

  const Dataset& dataset_;
  const int64_t batch_, lanes_;
  const data::SamplerOptions options_;
};

int check_all(const Dataset& dataset, const data::LoaderConfig& config) {
  const Epochs epochs(dataset, config);
  Seen expected, seen;
  for (Progress progress; progress.epoch < kEpochs;)
    epochs.run({.world = kFirstWorld, .workers = 2}, dataset.size(), progress, expected);
  std::mt19937 random(5);
  Progress progress;
  int stops = 0;
  for (; progress.epoch < kEpochs; ++stops) {
    const Ranks ranks = {.world = 1 + static_cast<int64_t>(random() % 4),
                         .workers = static_cast<int64_t>(random() % 5)};
    epochs.run(ranks, random() % 4 == 0 ? 2 : 1, progress, seen);
  }
  for (size_t i = 0; i < std::max(seen.size(), expected.size()); ++i)
    if (i >= seen.size() || i >= expected.size() || seen[i] != expected[i]) {
      std::cerr << "the samples differ from place " << i << " on, of " << expected.size() << "\n";
      return 1;
    }
  if (stops < kStops) std::cerr << "only " << stops << " stops\n";
  std::cout << seen.size() << "\n";
  return stops < kStops;
}

}  // namespace

int check_resume(const Arguments& arguments) {
  if (arguments.size() != 1) return 64;
  Data data;
  read_fields(read_config_file(arguments[0]), "data", data);
  const auto sets = build_datasets(data.train, Part<Dataset>(dataset_registry()), data.split);
  return check_all(*sets.train, data.loader);
}

}  // namespace lockstep::printer
