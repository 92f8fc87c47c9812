#include "trainer/loop/trial.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "core/system/durable_file.h"
#include "lockstep/config_fields.h"
#include "lockstep/error.h"
#include "lockstep/model.h"
#include "lockstep/rank_env.h"
#include "tests/temporary_directory.h"
#include "trainer/config/run_config.h"
#include "trainer/metrics/live_memory.h"
#include "trainer/prepared/prepared_run.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

constexpr const char* kTriedRun = R"(
model: {name: mlp, inputs: 64, hidden: [128], classes: 2}
data:
  train:
    name: synthetic
    samples: 32
    fields: {image: {shape: [64]}, label: {dtype: int64, values: uniform, high: 2}}
  batch_size: 16
optimizer: {name: sgd, lr: 0.1}
train: {max_steps: 1}
)";

struct WrappingConfig {
  int64_t inputs = 64;
};
template <class V>
void fields(V& v, WrappingConfig& c) {
  v("inputs", c.inputs, "features of a sample", required());
}

// Replaces every exception of its passes, as compiled code does.
class WrappingModel final : public Model {
 public:
  using Config = WrappingConfig;
  explicit WrappingModel(const Config& config) {
    weight_ = register_parameter("weight", at::zeros({config.inputs}));
  }
  Outputs forward(const Batch& batch) override {
    return {.loss = at::zeros({}, at::kFloat), .count = batch.size()};
  }
  bool has_backward() const override { return true; }
  StepOutputs forward_backward(const Batch& batch, const at::Tensor& /*weight*/) override {
    try {
      return {.outputs = forward(batch),
              .gradients = {at::zeros_like(weight_) * batch.at("image").exp().sum()},
              .remaining_segments = {}};
    } catch (const std::exception&) {
      throw std::runtime_error("a call failed");
    }
  }

 private:
  at::Tensor weight_;
};
REGISTER_MODEL("wrapping", WrappingModel, "for tests");

PreparedRun plan_to_try(const std::vector<std::string>& overrides) {
  const TemporaryDirectory dir;
  write_file_durably(dir / "run.yaml", kTriedRun);
  return prepare_plan(load_run_config(dir / "run.yaml", overrides), RankEnv());
}

}  // namespace

TEST_CASE("trial: a step whose tensors need more memory than permitted ends with that error") {
  const auto run = plan_to_try({});
  const auto needed = try_step(run, at::kCPU, 16, 1 << 20);
  REQUIRE(needed);
  CHECK(needed->forward >= 16 * 128 * sizeof(float));
  CHECK_THROWS_AS(try_step(run, at::kCPU, 16, needed->forward / 2), MemoryLimitReached);
  CHECK(try_step(run, at::kCPU, 16, 1 << 20)->whole == needed->whole);
}

TEST_CASE("trial: a model that replaces the exception of the limit ends with it, too") {
  const auto run = plan_to_try({"model={name: wrapping, inputs: 64}"});
  REQUIRE(try_step(run, at::kCPU, 16, 1 << 20).has_value());
  CHECK_THROWS_AS(try_step(run, at::kCPU, 16, 16 * 64), MemoryLimitReached);
}
