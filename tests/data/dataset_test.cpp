#include "lockstep/dataset.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

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

TEST_CASE("dataset: the default get_batch() uses fill()") {
  const std::vector<int64_t> indices = {7, 2};
  const auto batch = Sharded().get_batch(indices);
  CHECK(batch.indices.equal(at::tensor(indices)));
  CHECK(batch.at("label").equal(at::tensor(indices)));
  CHECK_THAT(error_of([] { Nothing().get_batch(std::vector<int64_t>{0}); }),
             Catch::Contains("a dataset must override layout() or get_batch()"));
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
