#include "lockstep/dataset.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "data/mixed_images.h"
#include "data/sampling/split.h"
#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

// Ten samples in shards of four, three and three; the label is the index.
class Sharded final : public Dataset {
 public:
  int64_t size() const override { return 10; }
  std::vector<FieldLayout> layout() const override { return {{"label", at::kLong, {}}}; }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    std::ranges::copy(request.indices, fields[0].mutable_data_ptr<int64_t>());
  }
  SampleInfo sample_info() const override {
    return {.shards = {4, 7, 10}, .reads_whole_shards = true, .labels = [] {
              return std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
            }};
  }
};

class Nothing final : public Dataset {
 public:
  int64_t size() const override { return 1; }
};

// White images whose classes are their numbers; number 3 cannot be loaded.
class Images final : public Dataset {
 public:
  int64_t size() const override { return 10; }
  std::vector<FieldLayout> layout() const override {
    return {{"image", at::kFloat, {1, 2, 2}}, {"label", at::kLong, {}}};
  }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    if (std::ranges::count(request.indices, 3) > 0) throw config_error("image 3: corrupt");
    fields[0].fill_(1);
    std::ranges::copy(request.indices, fields[1].mutable_data_ptr<int64_t>());
  }
};

TEST_CASE("dataset: an image whose partner is bad stays unmixed") {
  const auto images = std::make_shared<Images>();
  const MixedImages mixed(images, {.mixup = 10});
  const std::vector<int64_t> good = {0, 1, 2, 4, 5, 6, 7, 8, 9};
  int64_t unmixed = 0;
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    const auto batch = gather(mixed, {.indices = good, .epoch = epoch});
    CHECK((batch.at("mixed_label") == 3).sum().item<int64_t>() == 0);
    const auto is_whole = batch.at("mix") == 1;
    const auto own = batch.at("label").index({is_whole});
    CHECK(batch.at("mixed_label").index({is_whole}).equal(own));
    unmixed += is_whole.sum().item<int64_t>();
  }
  CHECK((0 < unmixed && unmixed < 45));
  CHECK(error_of([&] { gather(mixed, {.indices = std::vector<int64_t>{3}}); }) ==
        "config: image 3: corrupt");
}

TEST_CASE("dataset: the default get_batch() uses fill()") {
  const std::vector<int64_t> indices = {7, 2};
  const auto batch = Sharded().get_batch(indices);
  CHECK(batch.indices.equal(at::tensor(indices)));
  CHECK(batch.at("label").equal(at::tensor(indices)));
  CHECK(error_of([] { Nothing().get_batch(std::vector<int64_t>{0}); }) ==
        "config: a dataset must override layout() and fill(), or get_batch()");
  CHECK(error_of([] { Nothing().fill({}, {}); }) ==
        "config: a dataset with a layout() must override fill()");
}

TEST_CASE("dataset: sample information is empty by default") {
  const auto info = Nothing().sample_info();
  CHECK(info.shards.empty());
  CHECK_FALSE(info.reads_whole_shards);
  CHECK(info.labels().empty());
  CHECK(info.lengths().empty());
  CHECK(info.weights().empty());
}

TEST_CASE("dataset: a subset has the shards and indices of its members") {
  const Subset subset(std::make_shared<Sharded>(), {0, 3, 4, 8});
  const auto info = subset.sample_info();
  CHECK(info.shards == std::vector<int64_t>{2, 3, 4});
  CHECK(info.reads_whole_shards);
  CHECK(info.labels() == std::vector<double>{0, 3, 4, 8});
  CHECK(info.weights().empty());
}

}  // namespace
}  // namespace lockstep::data
