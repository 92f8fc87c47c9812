#include "data/sampling/sampling.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

// Six samples with the weights, labels and lengths set by the test.
class Knowing final : public Dataset {
 public:
  std::map<std::string, std::vector<double>> known;
  std::vector<int64_t> ends = {};
  int64_t size() const override { return 6; }
  Batch get_batch(std::span<const int64_t>) const override { return {}; }
  SampleInfo sample_info() const override {
    return {
        .shards = ends, .labels = of("label"), .lengths = of("length"), .weights = of("weight")};
  }

 private:
  SampleNumbers of(const std::string& what) const {
    return [this, what] {
      const auto found = known.find(what);
      return found == known.end() ? std::vector<double>{} : found->second;
    };
  }
};

SamplerOptions options_of(const std::string& yaml, const Knowing& dataset) {
  LoaderConfig config;
  read_fields(parse_config(yaml, "run.yaml"), "data", config);
  return sampler_options(config, dataset, 1, {.batch_size = 4});
}

TEST_CASE("sampling: by default every sample occurs once") {
  const auto options = options_of("{shuffle: true}", {});
  CHECK(options.weights.empty());
  CHECK(options.buckets.window == 0);
}

TEST_CASE("sampling: class_balanced makes all classes equally likely") {
  Knowing dataset;
  dataset.known["label"] = {0, 0, 0, 2, 0, 2};
  const auto options = options_of("{sampling: class_balanced}", dataset);
  CHECK(options.weights == std::vector<double>{0.25, 0.25, 0.25, 0.5, 0.25, 0.5});
}

TEST_CASE("sampling: weighted takes the dataset's weights or those of the classes") {
  Knowing dataset;
  dataset.known["weight"] = {1, 2, 3, 4, 5, 6};
  CHECK(options_of("{sampling: weighted}", dataset).weights == dataset.known["weight"]);
  dataset.known["label"] = {0, 1, 0, 1, 0, 1};
  CHECK(options_of("{sampling: weighted, class_weights: [1, 9]}", dataset).weights ==
        std::vector<double>{1, 9, 1, 9, 1, 9});
}

TEST_CASE("sampling: buckets need lengths") {
  Knowing dataset;
  dataset.known["length"] = {5, 1, 2, 6, 3, 4};
  const auto options = options_of("{bucket_batches: 3}", dataset);
  CHECK(options.buckets.window == 3);
  CHECK(options.buckets.batch_size == 4);
  CHECK(options.buckets.lengths == dataset.known["length"]);
}

TEST_CASE("sampling: weighted samples are read shard by shard") {
  Knowing dataset;
  dataset.known["label"] = {0, 0, 0, 2, 0, 2};
  dataset.ends = {2, 6};
  const auto options = options_of("{sampling: class_balanced, shuffle_buffer: 3}", dataset);
  CHECK(options.groups.ends == dataset.ends);
  CHECK(options.groups.buffer == 3);
  CHECK(error_of([&] {
          options_of("{sampling: class_balanced, shuffle_buffer: 3, shuffle_lanes: 2}", dataset);
        }) ==
        "config: run.yaml:1: data.shuffle_lanes: has no effect without data.sampling: uniform");
}

TEST_CASE("sampling: unsupported settings and settings without effect are errors") {
  Knowing dataset;
  const auto error = [&](const char* yaml) { return error_of([&] { options_of(yaml, dataset); }); };
  CHECK(error("{sampling: weighted}") ==
        "config: data.sampling: weighted without class_weights: this dataset does not provide the "
        "weights of its samples");
  CHECK(error("{sampling: class_balanced}") ==
        "config: data.sampling: class_balanced: this dataset does not provide the labels of its "
        "samples");
  CHECK(error("{bucket_batches: 2}") ==
        "config: data.bucket_batches: this dataset does not provide the lengths of its samples");
  CHECK(error("{class_weights: [1]}") ==
        "config: run.yaml:1: data.class_weights: has no effect without data.sampling: weighted");
  CHECK(error("{sampling: weighted, shuffle: false}") ==
        "config: data.sampling: weighted draws samples at random: data.shuffle: false has no "
        "effect with it");
  dataset.known["label"] = {0, 1, 2, 0, 1, 2};
  CHECK(error("{sampling: weighted, class_weights: [1, 2]}") ==
        "config: data.class_weights: 2 weights for 3 classes");
  dataset.known["label"] = {0, 1, 0.5, 0, 1, 2};
  CHECK(error("{sampling: class_balanced}") ==
        "config: the label of sample 2 is 0.5, which is not a class");
}

}  // namespace
}  // namespace lockstep::data
