// Dataset "mixture": samples of several datasets, in shares that are given as weights
// (data/mixture_plan.h). The parts must have the same fields.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "data/mixture_plan.h"
#include "data/sampling/sampling.h"
#include "data/sampling/split.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/part.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMaxMixture = int64_t{1} << 31;

struct MixturePart {
  double weight = 1;
  Part<Dataset> data{dataset_registry()};
};

template <class V>
void fields(V& v, MixturePart& c) {
  v("weight", c.weight, "share of the samples, relative to the weights of the other parts",
    above(0));
  v("data", c.data, "a dataset", required());
}

// The list `parts`. Its schema does not describe the datasets, which would contain itself.
class MixtureParts final : public AnyPart {
 public:
  void read(const ConfigNode& node, const std::string& path) override {
    if (node.kind != ConfigNode::Kind::List || node.items.empty())
      throw bad_value(node, path, "a list such as [{weight: 0.7, data: {name: ...}}, ...]");
    parts_.clear();
    for (size_t i = 0; i < node.items.size(); ++i)
      read_fields(node.items[i], fmt::format("{}[{}]", path, i), parts_.emplace_back());
  }

  Json dump() const override {
    auto list = Json::array();
    for (const auto& part : parts_) list.push_back(ConfigDumper::dump(part));
    return list;
  }

  Json schema() const override {
    const Json data = {{"type", "object"}, {"required", {"name"}}};
    const Json weight = {{"type", "number"}, {"exclusiveMinimum", 0}, {"default", 1}};
    const Json part = {{"type", "object"},
                       {"properties", {{"weight", weight}, {"data", data}}},
                       {"required", {"data"}},
                       {"additionalProperties", false}};
    return {{"type", "array"}, {"items", part}};
  }

  const std::vector<MixturePart>& all() const { return parts_; }

 private:
  std::vector<MixturePart> parts_;
};

struct MixtureConfig {
  MixtureParts parts;
  std::optional<int64_t> samples;
};

template <class V>
void fields(V& v, MixtureConfig& c) {
  v("parts", c.parts, "the datasets and their weights: [{weight: 0.7, data: {name: ...}}, ...]",
    required());
  v("samples", c.samples,
    "samples of an epoch; default: as many as use every sample of every part at least once",
    at_least(1), at_most(kMaxMixture));
}

std::string text_of_sizes(at::IntArrayRef sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::string text_of_layout(const std::vector<FieldLayout>& layout) {
  std::string text;
  for (const auto& field : layout)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", field.name,
                        c10::toString(field.type), text_of_sizes(field.shape));
  return text;
}

// The rows of a batch of one part go to these places of the batch of all parts.
void copy_rows(const at::Tensor& from, std::span<const int64_t> places, const at::Tensor& to) {
  const auto bytes = to.nbytes() / static_cast<size_t>(to.size(0));
  const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
  auto* target = static_cast<std::byte*>(to.mutable_data_ptr());
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(target + static_cast<size_t>(places[i]) * bytes, source + i * bytes, bytes);
}

class MixtureDataset final : public CombinedDataset {
 public:
  using Config = MixtureConfig;

  explicit MixtureDataset(const Config& config) {
    std::vector<double> weights;
    std::vector<int64_t> sizes;
    for (const auto& part : config.parts.all()) {
      names_.push_back(part.data.name());
      parts_.push_back(part.data.build());
      weights.push_back(part.weight);
      sizes.push_back(parts_.back()->size());
      if (sizes.back() >= kMaxMixture || sizes.back() == 0)
        throw refused(fmt::format("parts[{}] has {} samples, expected 1 to {}", sizes.size() - 1,
                                  sizes.back(), kMaxMixture));
      open_all_shards(parts_.back()->sample_info());  // it draws from all of them
    }
    const auto total = config.samples.value_or(mixture_total(weights, sizes));
    if (total > kMaxMixture)
      throw refused(
          fmt::format("an epoch that uses every sample has {} samples; set samples", total));
    plan_ = plan_mixture(mixture_counts(weights, total), sizes);
  }

  int64_t size() const override { return static_cast<int64_t>(plan_.size()); }

  // Parts of the same kind are fitted to the first of them in the training set, so that classes and
  // statistics agree.
  void fit(const Dataset& train_set, std::span<const int64_t> training) override {
    const auto* other = dynamic_cast<const MixtureDataset*>(&train_set);
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!other) {
        parts_[i]->fit(train_set, training);
        continue;
      }
      const auto found = std::ranges::find(other->names_, names_[i]);
      const auto first = static_cast<size_t>(found - other->names_.begin());
      if (first < other->names_.size())
        parts_[i]->fit(*other->parts_[first], other->samples_of(first, training));
      else
        parts_[i]->fit(*other->parts_[0], {});
    }
    verify_fields();
  }

  std::vector<const Dataset*> parts() const override {
    std::vector<const Dataset*> all;
    for (const auto& part : parts_) all.push_back(part.get());
    return all;
  }

  SampleInfo sample_info() const override {
    return {.labels = [this] { return numbers_of(&SampleInfo::labels); },
            .lengths = [this] { return numbers_of(&SampleInfo::lengths); },
            .weights = [this] { return numbers_of(&SampleInfo::weights); }};
  }

  std::vector<FieldLayout> layout() const override { return parts_[0]->layout(); }

  Batch get_batch(std::span<const int64_t> indices) const override {
    if (!layout().empty()) return Dataset::get_batch(indices);
    return get_samples({.indices = indices});
  }

  Batch get_samples(const SampleRequest& request) const override {
    const auto& indices = request.indices;
    std::vector<int64_t> order;  // the place of each row of the joined batches
    std::vector<Batch> batches;
    for_each_part(indices, [&](const Dataset& part, const auto& samples, const auto& places) {
      auto of_part = request;
      of_part.indices = samples;
      batches.push_back(part.get_samples(of_part));
      order.insert(order.end(), places.begin(), places.end());
    });
    const auto back = at::tensor(order).argsort();
    Batch joined{.indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()))};
    for (const auto& [name, first] : batches[0].fields) {
      std::vector<at::Tensor> rows;
      for (const auto& batch : batches) rows.push_back(batch.at(name));
      for (const auto& one : rows)
        if (one.sizes().slice(1) != first.sizes().slice(1))
          throw refused(fmt::format("samples of '{}' have different shapes, such as {} and {}",
                                    name, text_of_sizes(first.sizes().slice(1)),
                                    text_of_sizes(one.sizes().slice(1))));
      joined.fields.emplace_back(name, at::cat(rows).index_select(0, back));
    }
    return joined;
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for_each_part(request.indices,
                  [&](const Dataset& part, const auto& samples, const auto& places) {
                    auto of_part = request;
                    of_part.indices = samples;
                    const auto batch = gather(part, of_part);
                    for (size_t i = 0; i < fields.size(); ++i)
                      copy_rows(batch.fields[i].second, places, fields[i]);
                  });
  }

  Json metadata() const override { return parts_[0]->metadata(); }

  std::optional<int64_t> count_target_bytes(const Batch& batch) const override {
    const auto* begin = batch.indices.const_data_ptr<int64_t>();
    std::optional<int64_t> sum = 0;
    for_each_part({begin, static_cast<size_t>(batch.size())},
                  [&](const Dataset& part, const auto& samples, const auto& places) {
                    Batch of_part{.indices = at::tensor(samples)};
                    for (const auto& [name, tensor] : batch.fields)
                      of_part.fields.emplace_back(
                          name, tensor.index_select(0, at::tensor(places).to(tensor.device())));
                    const auto bytes = part.count_target_bytes(of_part);
                    sum = sum && bytes ? std::optional(*sum + *bytes) : std::nullopt;
                  });
    return sum;
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> all;
    for (size_t i = 0; i < parts_.size(); ++i) {
      for (const auto& warning : parts_[i]->warnings()) all.push_back(warning);
      if (parts_[i]->sample_info().reads_whole_shards)
        all.push_back(
            fmt::format("data: parts[{}] of the mixture ({}) reads whole shards, which "
                        "is slow in the order of a mixture",
                        i, names_[i]));
    }
    return all;
  }

 private:
  static Error refused(const std::string& why) { return config_error("dataset mixture: " + why); }

  template <class Use>
  void for_each_part(std::span<const int64_t> indices, const Use& use) const {
    std::vector<std::vector<int64_t>> samples(parts_.size()), places(parts_.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      check(indices[i] >= 0 && indices[i] < size(), "sample index outside the dataset");
      const auto [part, sample] = plan_[static_cast<size_t>(indices[i])];
      samples[part].push_back(sample);
      places[part].push_back(static_cast<int64_t>(i));
    }
    for (size_t part = 0; part < parts_.size(); ++part)
      if (!samples[part].empty()) use(*parts_[part], samples[part], places[part]);
  }

  // The samples of a part among those of the mixture; empty: all.
  std::vector<int64_t> samples_of(size_t part, std::span<const int64_t> training) const {
    std::vector<int64_t> samples;
    for (const auto index : training)
      if (const auto& one = plan_[static_cast<size_t>(index)]; one.part == part)
        samples.push_back(one.sample);
    std::ranges::sort(samples);
    const auto repeated = std::ranges::unique(samples);
    samples.erase(repeated.begin(), repeated.end());
    return samples;
  }

  void verify_fields() const {
    const auto first = fields_of(0);
    for (size_t i = 1; i < parts_.size(); ++i) {
      if (const auto other = fields_of(i); other != first)
        throw refused(fmt::format("the parts have different fields: parts[0] has {}; parts[{}] {}",
                                  text_of_layout(first), i, text_of_layout(other)));
      if (parts_[i]->layout().empty() != parts_[0]->layout().empty() ||
          parts_[i]->metadata() != parts_[0]->metadata())
        throw refused(
            fmt::format("parts[0] and parts[{}] have different classes, columns or "
                        "statistics",
                        i));
    }
  }

  // Of the first sample, if the samples have different shapes.
  std::vector<FieldLayout> fields_of(size_t part) const {
    auto layout = parts_[part]->layout();
    if (!layout.empty()) return layout;
    const int64_t first = 0;
    for (const auto& [name, tensor] : parts_[part]->get_batch({&first, 1}).fields)
      layout.push_back({name, tensor.scalar_type(), tensor.sizes().slice(1).vec()});
    return layout;
  }

  std::vector<double> numbers_of(SampleNumbers SampleInfo::*numbers) const {
    std::vector<std::vector<double>> of_parts;
    for (const auto& part : parts_) {
      const auto info = part->sample_info();
      of_parts.push_back((info.*numbers)());
      if (of_parts.back().empty()) return {};
    }
    std::vector<double> all;
    for (const auto [part, sample] : plan_) all.push_back(of_parts[part][sample]);
    return all;
  }

  std::vector<std::string> names_;
  std::vector<std::shared_ptr<Dataset>> parts_;
  std::vector<MixtureSample> plan_;
};

REGISTER_DATASET("mixture", MixtureDataset, "several datasets, in shares given as weights");

}  // namespace
}  // namespace lockstep::data
