#include "data/sampling/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

std::vector<double> known(const SampleNumbers& numbers, const char* what, const char* setting) {
  auto all = numbers();
  if (all.empty())
    throw config_error(
        fmt::format("{}: this dataset does not provide the {}s of its samples", setting, what));
  return all;
}

std::vector<double> balanced_weights(const std::vector<double>& labels) {
  const auto counts = count_classes(labels);
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const auto label : labels)
    weights.push_back(1.0 / static_cast<double>(counts[static_cast<size_t>(label)]));
  return weights;
}

std::vector<double> weights_of_classes(const std::vector<double>& labels,
                                       const std::vector<double>& of_class) {
  const auto classes = count_classes(labels).size();
  if (classes != of_class.size())
    throw config_error(
        fmt::format("data.class_weights: {} weights for {} classes", of_class.size(), classes));
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const auto label : labels) weights.push_back(of_class[static_cast<size_t>(label)]);
  return weights;
}

std::vector<double> weights(const LoaderConfig& config, const SampleInfo& info) {
  if (config.sampling == Sampling::ClassBalanced)
    return balanced_weights(known(info.labels, "label", "data.sampling: class_balanced"));
  if (config.class_weights.empty())
    return known(info.weights, "weight", "data.sampling: weighted without class_weights");
  return weights_of_classes(known(info.labels, "label", "data.class_weights"),
                            config.class_weights);
}

constexpr double kMaxClasses = 1 << 20;

bool is_class(double label) {
  return label >= 0 && label < kMaxClasses && label == std::floor(label);
}

}  // namespace

void open_all_shards(const SampleInfo& info) {
  if (info.fetch_ahead) info.labels();
}

bool are_classes(const std::vector<double>& labels) {
  return std::ranges::all_of(labels, is_class);
}

std::vector<int64_t> count_classes(const std::vector<double>& labels) {
  std::vector<int64_t> counts;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = labels[i];
    if (!is_class(label))
      throw config_error(
          fmt::format("the label of sample {} is {}, which is not a class", i, label));
    const auto number = static_cast<size_t>(label);
    if (number >= counts.size()) counts.resize(number + 1);
    ++counts[number];
  }
  return counts;
}

SamplerOptions sampler_options(const LoaderConfig& config, const Dataset& dataset, uint64_t seed,
                               const BatchRule& batches) {
  if (config.sampling != Sampling::Uniform && !config.shuffle)
    throw config_error(fmt::format(
        "data.sampling: {} draws samples at random: data.shuffle: false has no effect with it",
        name_of(config.sampling)));
  const auto info = dataset.sample_info();
  SamplerOptions options{.shuffle = config.shuffle, .seed = seed, .batches = batches};
  if (config.sampling != Sampling::Uniform) options.weights = weights(config, info);
  if (config.shuffle_buffer) {
    options.groups = {.ends = info.shards, .buffer = *config.shuffle_buffer};
    if (options.groups.ends.empty())
      throw config_error("data.shuffle_buffer: this dataset has no shards: remove the key");
  } else if (config.shuffle && info.reads_whole_shards) {
    options.groups.ends = info.shards;
  }
  if (config.shuffle_lanes && options.groups.ends.empty())
    throw config_error(
        "data.shuffle_lanes: has no effect without data.shuffle_buffer, or data that are read "
        "in groups");
  if (config.shuffle && options.groups.ends.empty()) open_all_shards(info);
  if (config.bucket_batches > 0)
    options.buckets = {.lengths = known(info.lengths, "length", "data.bucket_batches"),
                       .batch_size = batches.batch_size,
                       .window = config.bucket_batches};
  return options;
}

}  // namespace lockstep::data
