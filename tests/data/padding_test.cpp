// Samples of different length: padded to the longest of their batch, with little padding if batches
// have samples of similar length.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "data/loader/loader.h"
#include "data/sampling/sampling.h"

namespace lockstep::data {
namespace {

constexpr int64_t kDocuments = 500;

int64_t length_of(int64_t document) { return 1 + document * 37 % 101; }

// Document i consists of length_of(i) tokens i.
class Documents final : public Dataset {
 public:
  int64_t size() const override { return kDocuments; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    std::vector<at::Tensor> rows;
    std::vector<int64_t> lengths;
    for (const auto index : indices) {
      lengths.push_back(length_of(index));
      rows.push_back(at::full({lengths.back()}, index, at::kLong));
    }
    return {.fields = {{"tokens", at::pad_sequence(rows, /*batch_first=*/true, -1)},
                       {"length", at::tensor(lengths)}},
            .indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()))};
  }
  SampleInfo sample_info() const override {
    return {.lengths = [] {
      std::vector<double> lengths;
      for (int64_t i = 0; i < kDocuments; ++i) lengths.push_back(static_cast<double>(length_of(i)));
      return lengths;
    }};
  }
};

struct Epoch {
  std::vector<int64_t> documents;  // in the order of each rank, rank by rank
  int64_t padding = 0;
  bool whole = true;  // every row has exactly its document
};

Epoch run(int64_t world, int64_t bucket_batches) {
  const Documents dataset;
  LoaderConfig config;
  config.bucket_batches = bucket_batches;
  Epoch epoch;
  for (int64_t rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(kDocuments, {rank, world},
                               sampler_options(config, dataset, 3, {.batch_size = 20}));
    Loader loader(dataset, sampler.indices(), {.batch_size = 20 / world, .workers = 2});
    while (const auto batch = loader.next()) {
      const auto tokens = batch->at("tokens");
      for (int64_t i = 0; i < batch->size(); ++i) {
        const auto document = batch->indices[i].item<int64_t>();
        epoch.documents.push_back(document);
        epoch.whole &= tokens[i].eq(document).sum().item<int64_t>() == length_of(document);
      }
      epoch.padding += tokens.eq(-1).sum().item<int64_t>();
    }
  }
  return epoch;
}

TEST_CASE("padding: batches of similar length have every sample once and little padding") {
  for (const int64_t world : {1, 2}) {
    const auto plain = run(world, 0);
    auto bucketed = run(world, 10);
    INFO(world << " ranks");
    CHECK(plain.whole);
    CHECK(bucketed.whole);
    CHECK(bucketed.padding < plain.padding / 5);
    std::ranges::sort(bucketed.documents);
    for (int64_t i = 0; i < kDocuments; ++i) CHECK(bucketed.documents[static_cast<size_t>(i)] == i);
  }
}

}  // namespace
}  // namespace lockstep::data
