#include "trainer/loop/evaluation.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

// Three samples, their own indices.
class ThreeSamples final : public Dataset {
 public:
  int64_t size() const override { return 3; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    const auto chosen = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return {.fields = {{"x", chosen.to(at::kFloat)}}, .indices = chosen};
  }
};

// Its loss is the mean of the batch; has the metric "rare" in the batch of this sample only.
class RareMetric final : public Model {
 public:
  explicit RareMetric(int64_t sample) : sample_(sample) {}
  Outputs forward(const Batch& batch) override {
    Outputs outputs{.loss = batch.at("x").mean(), .count = batch.size()};
    if (batch.indices[0].item<int64_t>() == sample_) outputs.sums["rare"] = at::ones({});
    return outputs;
  }

 private:
  int64_t sample_;
};

}  // namespace

TEST_CASE("evaluation: a metric that only some batches have", "[ranks]") {
  for (const int ranks : {1, 2})
    for (const int64_t sample : {0, 1, 2}) {
      INFO(ranks << " ranks, sample " << sample);
      const auto results = distributed::run_ranks(ranks, [&](World& world) {
        RareMetric model(sample);
        return evaluate(world, model, ThreeSamples(), {.batch_size = 1});
      });
      for (const auto& result : results)
        CHECK(result == std::map<std::string, double>{{"loss", 1}, {"rare", 1.0 / 3}});
    }
}
