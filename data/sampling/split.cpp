#include "data/sampling/split.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <typeinfo>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxShown = 80;  // of the name of a class

at::Tensor indices_tensor(std::span<const int64_t> indices) {
  auto tensor = at::empty({static_cast<int64_t>(indices.size())}, at::kLong);
  std::memcpy(tensor.mutable_data_ptr<int64_t>(), indices.data(), indices.size_bytes());
  return tensor;
}

// null if the dataset reads no file.
Json path_of(const Part<Dataset>& part) {
  const auto config = part.dump();
  return config.is_object() ? config.value("path", Json()) : Json();
}

void fit_to_part(Dataset& eval_set, const CombinedDataset& train_set) {
  const auto parts = train_set.parts();
  const auto same = std::ranges::find_if(
      parts, [&](const Dataset* part) { return typeid(*part) == typeid(eval_set); });
  eval_set.fit(same == parts.end() ? *parts.front() : **same, {});
}

// Metrics would be wrong.
void verify_classes(const Dataset& eval_set, const Dataset& train_set) {
  const auto names = class_names_of(eval_set), trained = class_names_of(train_set);
  for (size_t i = 0; i < std::min(names.size(), trained.size()); ++i)
    if (names[i] != trained[i])
      throw config_error(fmt::format(
          "class {} is '{}' in data.train, but '{}' in data.eval: name the same classes in the "
          "same order",
          i, printable(trained[i], kMaxShown), printable(names[i], kMaxShown)));
}

// `training`: as of Dataset::fit().
void fit_evaluation_set(Dataset& eval_set, const Dataset& train_set,
                        std::span<const int64_t> training) {
  const auto* const combined = dynamic_cast<const CombinedDataset*>(&train_set);
  if (combined && !dynamic_cast<const CombinedDataset*>(&eval_set))
    fit_to_part(eval_set, *combined);
  else
    eval_set.fit(train_set, training);
  verify_classes(eval_set, train_set);
}

}  // namespace

std::vector<std::string> class_names_of(const Dataset& dataset) {
  const auto metadata = dataset.metadata();
  const auto classes = metadata.is_object() ? metadata.value("classes", Json()) : Json();
  std::vector<std::string> names;
  for (const auto& name : classes.is_array() ? classes : Json::array())
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

Split split_samples(int64_t num_samples, double fraction, int64_t seed) {
  const auto held_out =
      static_cast<int64_t>(std::floor(static_cast<double>(num_samples) * fraction));
  if (held_out == 0 || held_out >= num_samples)
    throw config_error(
        fmt::format("data.split.eval: {} of {} samples leaves {} to evaluate on and {} to train on",
                    fraction, num_samples, held_out, num_samples - held_out));
  const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  const auto order = at::randperm(num_samples, generator, at::kLong);
  const auto* begin = order.const_data_ptr<int64_t>();
  const auto* middle = begin + (num_samples - held_out);
  Split split{.train = {begin, middle}, .eval = {middle, begin + num_samples}};
  std::ranges::sort(split.train);
  std::ranges::sort(split.eval);
  return split;
}

Subset::Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> members)
    : whole_(std::move(whole)), members_(std::move(members)) {}

std::vector<int64_t> Subset::members_of(std::span<const int64_t> indices) const {
  std::vector<int64_t> members;
  members.reserve(indices.size());
  for (const auto index : indices) {
    check(index >= 0 && index < size(), "sample index outside the subset");
    members.push_back(members_[static_cast<size_t>(index)]);
  }
  return members;
}

Batch Subset::get_batch(std::span<const int64_t> indices) const {
  auto batch = whole_->get_batch(members_of(indices));
  batch.indices = indices_tensor(indices);
  return batch;
}

Batch Subset::get_samples(const SampleRequest& request) const {
  const auto members = members_of(request.indices);
  auto of_whole = request;
  of_whole.indices = members;
  auto batch = whole_->get_samples(of_whole);
  batch.indices = indices_tensor(request.indices);
  return batch;
}

std::optional<int64_t> Subset::count_target_bytes(const Batch& batch) const {
  const auto* begin = batch.indices.const_data_ptr<int64_t>();
  auto of_whole = batch;
  of_whole.indices = indices_tensor(members_of({begin, static_cast<size_t>(batch.size())}));
  return whole_->count_target_bytes(of_whole);
}

void Subset::fill(const SampleRequest& request, std::span<const at::Tensor> fields) const {
  const auto members = members_of(request.indices);
  auto of_whole = request;
  of_whole.indices = members;
  whole_->fill(of_whole, fields);
}

SampleNumbers Subset::of_members(SampleNumbers of_whole) const {
  return [this, of_whole = std::move(of_whole)] {
    const auto all = of_whole();
    std::vector<double> mine;
    if (all.empty()) return mine;
    mine.reserve(members_.size());
    for (const auto member : members_) mine.push_back(all[static_cast<size_t>(member)]);
    return mine;
  };
}

SampleInfo Subset::sample_info() const {
  auto info = whole_->sample_info();
  for (auto& end : info.shards) end = std::ranges::lower_bound(members_, end) - members_.begin();
  for (auto* numbers : {&info.labels, &info.lengths, &info.weights})
    *numbers = of_members(std::move(*numbers));
  return info;
}

TrainAndEval build_datasets(const Part<Dataset>& train, const Part<Dataset>& eval,
                            const SplitConfig& split) {
  const auto train_set = train.build();
  if (split.eval) {
    auto parts = split_samples(train_set->size(), *split.eval, split.seed);
    train_set->fit(*train_set, parts.train);
    const auto eval_set = eval.is_set() ? eval.build() : train_set;
    if (eval_set->size() != train_set->size())
      throw config_error(fmt::format(
          "data.eval has {} samples, data.train {}: with data.split.eval both must be the same "
          "data, read in two ways",
          eval_set->size(), train_set->size()));
    if (eval_set != train_set) fit_evaluation_set(*eval_set, *train_set, parts.train);
    return {std::make_shared<Subset>(train_set, std::move(parts.train)),
            std::make_shared<Subset>(eval_set, std::move(parts.eval))};
  }
  train_set->fit(*train_set, {});
  const auto eval_set = eval.is_set() ? eval.build() : nullptr;
  if (eval_set) fit_evaluation_set(*eval_set, *train_set, {});
  return {train_set, eval_set};
}

TrainAndEval build_datasets_to_predict(const Part<Dataset>& train, const Part<Dataset>& eval,
                                       const SplitConfig& split) {
  const bool is_other_data = split.eval && eval.is_set() && path_of(eval) != path_of(train);
  if (!is_other_data) return build_datasets(train, eval, split);
  const auto train_set = train.build();
  auto parts = split_samples(train_set->size(), *split.eval, split.seed);
  train_set->fit(*train_set, parts.train);
  const auto eval_set = eval.build();
  fit_evaluation_set(*eval_set, *train_set, parts.train);
  return {std::make_shared<Subset>(train_set, std::move(parts.train)), eval_set};
}

}  // namespace lockstep::data
