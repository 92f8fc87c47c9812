#include "data/loader/batch_reader.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

// Its sample is its index; number 3 cannot be read.
class Numbers final : public Dataset {
 public:
  int64_t size() const override { return 100; }
  std::vector<FieldLayout> layout() const override { return {{"x", at::kLong, {}}}; }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    auto* x = fields[0].mutable_data_ptr<int64_t>();
    for (const auto index : request.indices) {
      if (index == 3) throw config_error("file 3: corrupt");
      *x++ = index;
    }
  }
};

std::vector<int64_t> values_in(const at::Tensor& tensor) {
  const auto* begin = tensor.const_data_ptr<int64_t>();
  return {begin, begin + tensor.numel()};
}

TEST_CASE("batch reader: pieces of a batch are read into one buffer, in any order") {
  const Numbers dataset;
  BatchReader reader(dataset, {0, 1, 2, 9, 8, 7, 6, 5}, {.batch_size = 4});
  REQUIRE(reader.is_divisible());
  auto read = reader.begin(1);
  REQUIRE(read.batch.size() == 4);
  CHECK(reader.read({1, 2, 4}, read.batch).error == nullptr);
  CHECK(reader.read({1, 0, 2}, read.batch).error == nullptr);
  const auto batch = reader.finish(std::move(read));
  CHECK(values_in(batch.at("x")) == std::vector<int64_t>{8, 7, 6, 5});
  CHECK(values_in(batch.indices) == std::vector<int64_t>{8, 7, 6, 5});
}

TEST_CASE("batch reader: an error of a piece is thrown by finish()") {
  const Numbers dataset;
  BatchReader reader(dataset, {0, 1, 2, 3}, {.batch_size = 4, .name = "d"});
  auto read = reader.begin(0);
  CHECK(reader.read({0, 0, 2}, read.batch).error == nullptr);
  read.rows = reader.read({0, 2, 4}, read.batch);
  CHECK(read.rows.bad.empty());
  CHECK(error_of([&] { reader.finish(std::move(read)); }) ==
        "config: d: batch 0, samples 2, 3: file 3: corrupt");
}

TEST_CASE("batch reader: bad rows are reported by position and removed by finish()") {
  const Numbers dataset;
  BatchReader reader(dataset, {0, 1, 2, 3, 4}, {.batch_size = 5, .bad_samples = tolerated(1)});
  auto read = reader.read_whole(0);
  CHECK(read.rows.bad == std::set<int64_t>{3});
  const auto batch = reader.finish(std::move(read));
  CHECK(values_in(batch.at("x")) == std::vector<int64_t>{0, 1, 2, 4});
  CHECK(values_in(batch.indices) == std::vector<int64_t>{0, 1, 2, 4});
}

// A plugin's, which returns the same fields for any samples.
class Fixed final : public Dataset {
 public:
  explicit Fixed(Batch batch) : batch_(std::move(batch)) {}
  int64_t size() const override { return 100; }
  Batch get_batch(std::span<const int64_t>) const override { return batch_; }

 private:
  Batch batch_;
};

std::string error_of_batch(Batch batch) {
  const Fixed dataset(std::move(batch));
  BatchReader reader(dataset, {4, 5, 6},
                     {.batch_size = 3, .name = "data.train", .bad_samples = tolerated(100)});
  return error_of([&] { reader.finish(reader.read_whole(0)); });
}

TEST_CASE("batch reader: a dataset may leave out the indices") {
  const Fixed dataset({.fields = {{"x", at::zeros({3, 2})}}, .indices = {}});
  BatchReader reader(dataset, {4, 5, 6}, {.batch_size = 3});
  CHECK(values_in(reader.finish(reader.read_whole(0)).indices) == std::vector<int64_t>{4, 5, 6});
}

TEST_CASE("batch reader: a field must have a row per sample") {
  const std::string begin = "config: data.train: batch 0, samples 4, 5, 6: ",
                    end = "; expected 3 rows, one per requested sample";
  CHECK(error_of_batch(
            {.fields = {{"x", at::zeros({3})}, {"y", at::zeros({2, 5})}}, .indices = {}}) ==
        begin + "field 'y' of the dataset's batch has the shape [2, 5]" + end);
  CHECK(error_of_batch({.fields = {{"x", at::zeros({})}}, .indices = {}}) ==
        begin + "field 'x' of the dataset's batch has the shape []" + end);
  CHECK(error_of_batch({.fields = {{"x", at::Tensor()}}, .indices = {}}) ==
        begin + "field 'x' of the dataset's batch is undefined" + end);
  CHECK(error_of_batch({.fields = {}, .indices = at::zeros({2}, at::kLong)}) ==
        begin + "'indices' of the dataset's batch has the shape [2]" + end);
}

}  // namespace
}  // namespace lockstep::data
