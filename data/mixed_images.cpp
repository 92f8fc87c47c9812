#include "data/mixed_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/shard_error.h"
#include "lockstep/error.h"
#include "lockstep/sample_random.h"

namespace lockstep::data {
namespace {

// Makes the numbers independent of those of augmentation.
constexpr uint64_t kMixStream = 0x6d69786564;

double normal(SampleRandom& random) {
  const auto radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// By the method of Marsaglia and Tsang (2000).
double gamma(SampleRandom& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * std::pow(1 - random.uniform(), 1 / shape);
  const auto d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const auto x = normal(random), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - random.uniform()) < x * x / 2 + d * (1 - v + std::log(v)))
      return d * v;
  }
}

double beta(SampleRandom& random, double alpha) {
  const auto a = gamma(random, alpha), b = gamma(random, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;
}

struct MixedPlace {
  int64_t begin = 0, size = 0;
};

// A range of about `share` of `length` around a random point, within it.
MixedPlace random_place(SampleRandom& random, int64_t length, double share) {
  const auto half = static_cast<int64_t>(static_cast<double>(length) * share) / 2;
  const auto center = static_cast<int64_t>(random.below(static_cast<uint32_t>(length)));
  const auto begin = std::max<int64_t>(center - half, 0);
  return {begin, std::min(center + half, length) - begin};
}

// Returns the share of `image` [C, H, W] that stays.
double cut_and_mix(SampleRandom& random, double share, at::Tensor image, const at::Tensor& other) {
  const auto height = image.size(1), width = image.size(2);
  const auto side = std::sqrt(1 - share);
  const auto rows = random_place(random, height, side);
  const auto columns = random_place(random, width, side);
  const auto part = [&](const at::Tensor& whole) {
    return whole.narrow(1, rows.begin, rows.size).narrow(2, columns.begin, columns.size);
  };
  part(image).copy_(part(other));
  return 1 - static_cast<double>(rows.size * columns.size) / static_cast<double>(height * width);
}

}  // namespace

MixedImages::MixedImages(std::shared_ptr<const Dataset> data, const MixConfig& config)
    : data_(std::move(data)), config_(config) {
  const auto fields = data_->layout();
  const auto find = [&](const char* name, at::ScalarType type, size_t dimensions) {
    const auto found = std::ranges::find(fields, name, &FieldLayout::name);
    if (found == fields.end() || found->type != type || found->shape.size() != dimensions)
      throw config_error(
          "data.mix needs samples of equal shape with a field 'image', float32 [C, H, W], and a "
          "field 'label', the int64 number of a class");
    return static_cast<size_t>(found - fields.begin());
  };
  image_ = find("image", at::kFloat, 3);
  label_ = find("label", at::kLong, 0);
}

std::vector<FieldLayout> MixedImages::layout() const {
  auto fields = data_->layout();
  fields.push_back({"mixed_label", at::kLong, {}});
  fields.push_back({"mix", at::kFloat, {}});
  return fields;
}

void MixedImages::fill(const SampleRequest& request, std::span<const at::Tensor> fields) const {
  const auto own = fields.first(fields.size() - 2);
  data_->fill(request, own);
  std::vector<SampleRandom> streams;
  std::vector<int64_t> others;
  for (const auto index : request.indices) {
    streams.emplace_back(request.seed ^ kMixStream, request.epoch, index);
    others.push_back(streams.back().below(static_cast<uint32_t>(size())));
  }
  auto of_others = request;
  of_others.indices = others;
  const auto loaded = load_others(of_others);
  const auto &images = fields[image_], &labels = fields[label_];
  for (size_t i = 0; i < streams.size(); ++i) {
    auto& random = streams[i];
    const auto row = static_cast<int64_t>(i);
    const bool is_mixed = random.uniform() < config_.probability && loaded[i];
    const bool cuts = config_.cutmix && (!config_.mixup || random.uniform() < 0.5);
    auto image = images.select(0, row);
    auto share = is_mixed ? beta(random, cuts ? *config_.cutmix : *config_.mixup) : 1.0;
    if (is_mixed && cuts) share = cut_and_mix(random, share, image, loaded[i]->image);
    if (is_mixed && !cuts) image.mul_(share).add_(loaded[i]->image, 1 - share);
    fields[fields.size() - 2].mutable_data_ptr<int64_t>()[i] =
        loaded[i] ? loaded[i]->label : labels.const_data_ptr<int64_t>()[i];
    fields[fields.size() - 1].mutable_data_ptr<float>()[i] = static_cast<float>(share);
  }
}

// One for each index of the request; empty if it cannot be loaded. Such a sample is reported when
// it is drawn itself.
std::vector<std::optional<MixedImages::OtherImage>> MixedImages::load_others(
    const SampleRequest& request) const {
  std::vector<std::optional<OtherImage>> others;
  const auto load = [&](const SampleRequest& some) {
    const auto batch = gather(*data_, some);
    const auto &images = batch.fields[image_].second, &labels = batch.fields[label_].second;
    for (int64_t row = 0; row < batch.size(); ++row)
      others.emplace_back(OtherImage{images.select(0, row), labels.const_data_ptr<int64_t>()[row]});
  };
  try {
    load(request);
    return others;
  } catch (const Error& error) {
    if (!is_of_samples(error)) throw;
  }
  for (size_t i = 0; i < request.indices.size(); ++i) {
    auto one = request;
    one.indices = request.indices.subspan(i, 1);
    try {
      load(one);
    } catch (const Error& error) {
      if (!is_of_samples(error)) throw;
      others.emplace_back();
    }
  }
  return others;
}

}  // namespace lockstep::data
