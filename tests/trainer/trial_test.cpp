#include "trainer/loop/trial.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "core/system/durable_file.h"
#include "lockstep/config_fields.h"
#include "lockstep/dataset.h"
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

struct BadStartConfig {
  int64_t bad = 2;
};
template <class V>
void fields(V& v, BadStartConfig& c) {
  v("bad", c.bad, "samples at the beginning that cannot be loaded", at_least(0));
}

class BadStart final : public Dataset {
 public:
  using Config = BadStartConfig;
  explicit BadStart(const Config& config) : bad_(config.bad) {}
  int64_t size() const override { return 32; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    for (const auto index : indices)
      if (index < bad_) throw config_error("sample " + std::to_string(index) + " is corrupt");
    const auto count = std::ssize(indices);
    return {.fields = {{"image", at::zeros({count, 64})}, {"label", at::zeros({count}, at::kLong)}},
            .indices = {}};
  }

 private:
  int64_t bad_;
};
REGISTER_DATASET("bad_start", BadStart, "for tests");

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

TEST_CASE("trial: as many samples as are tried may be bad, if bad samples are skipped") {
  const auto run = plan_to_try({"data.train={name: bad_start}", "data.max_bad_samples=2"});
  CHECK_NOTHROW(try_model(run, at::kCPU));
  CHECK_FALSE(try_step(run, at::kCPU, 2, 1 << 20).has_value());
  CHECK(try_step(run, at::kCPU, 3, 1 << 20).has_value());
  const auto strict = plan_to_try({"data.train={name: bad_start}"});
  CHECK_THROWS_WITH(try_model(strict, at::kCPU), Catch::Contains("sample 0 is corrupt"));
}
