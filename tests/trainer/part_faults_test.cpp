// Errors in the code of models, optimizers and hooks of plugins: each is one line with the part's name.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "core/system/durable_file.h"
#include "lockstep/config_fields.h"
#include "lockstep/error.h"
#include "lockstep/hook.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/session.h"
#include "tests/temporary_directory.h"

using namespace lockstep;

namespace {

struct FaultyPartConfig {
  std::string fault;
};
template <class V>
void fields(V& v, FaultyPartConfig& c) {
  v("fault", c.fault, "what it does wrong", required());
}

// In each run, its first two evaluations are those of the trial.
class FaultyPartModel final : public Model {
 public:
  using Config = FaultyPartConfig;
  explicit FaultyPartModel(const Config& config) : fault_(config.fault), layer_(3, 2) {
    register_module("layer", layer_);
  }

  std::string target_name() const override {
    return fault_.find("targets") == std::string::npos ? "" : "labels";
  }
  at::Tensor count_targets(const Batch& batch) const override {
    if (fault_ == "no count of targets") return Model::count_targets(batch);
    if (fault_ == "other targets") return at::scalar_tensor(1, at::kLong);
    return at::scalar_tensor(batch.size(), at::kLong);
  }

  Outputs forward(const Batch& batch) override {
    const auto& label = batch.at("label");
    (is_training() ? steps_ : evaluations_) += 1;
    if (fault_ == "throws in step 2" && steps_ == 2) throw std::out_of_range("map::at");
    if (fault_ == "fails in evaluation batch 2" && evaluations_ == 4) label.select(0, 1000);
    const auto logits = layer_(batch.at("image")) * mask();
    Outputs outputs{.loss = at::cross_entropy_loss(logits, label), .count = batch.size()};
    if (!target_name().empty()) outputs.targets = at::scalar_tensor(batch.size(), at::kLong);
    if (fault_ == "targets per sample") outputs.targets = label;
    if (fault_ == "a sum called loss") outputs.sums["loss"] = outputs.loss.detach();
    if (fault_ == "no loss in evaluation batch 2" && evaluations_ == 4) outputs.loss.reset();
    return outputs;
  }

 private:
  at::Tensor mask() {
    const bool is_remade = fault_ == "keeps tensors of evaluations" && !is_training();
    if (!mask_.defined() || is_remade) mask_ = at::ones({2});
    return mask_;
  }

  std::string fault_;
  torch::nn::Linear layer_;
  at::Tensor mask_;
  int steps_ = 0, evaluations_ = 0;
};
REGISTER_MODEL("faulty_part", FaultyPartModel, "for tests");

class FaultyPartOptimizer final : public Optimizer {
 public:
  using Config = FaultyPartConfig;
  FaultyPartOptimizer(const Config& config, const NamedTensors& parameters)
      : fault_(config.fault), parameters_(parameters) {}
  double base_lr() const override { return 0.1; }
  void step(double /*lr*/) override {
    if (fault_ == "throws") throw std::runtime_error("no more steps");
    if (fault_ == "fails") parameters_.front().second.select(0, 1000);
  }
  NamedTensors state() const override { return {}; }
  void load_state(const NamedTensors& /*state*/) override {}

 private:
  std::string fault_;
  NamedTensors parameters_;
};
REGISTER_OPTIMIZER("faulty_part", FaultyPartOptimizer, "for tests");

class FaultyPartHook final : public Hook {
 public:
  using Config = FaultyPartConfig;
  explicit FaultyPartHook(const Config& /*config*/) {}
  void after_step(HookContext& run) override {
    if (run.step == 1) throw std::out_of_range("vector::at");
  }
};
REGISTER_HOOK("faulty_part", FaultyPartHook, "for tests");

constexpr const char* kFaultyPartRun = R"(
run: {{name: faulty, dir: "{dir}"}}
model: {{name: faulty_part, fault: none}}
data:
  train: &data
    name: synthetic
    samples: 16
    fields: {{image: {{shape: [3]}}, label: {{dtype: int64, values: uniform, high: 2}}}}
  eval: *data
  batch_size: 8
  eval_batch_size: 8
optimizer: {{name: sgd, lr: 0.1}}
train: {{max_steps: 2, eval_every: 1 steps}}
tracking: {{sinks: []}}
)";

// The error with which a run ends; "none".
std::string end_of_run_with(const std::string& setting) {
  const TemporaryDirectory dir;
  write_file_durably(dir / "run.yaml",
                     fmt::format(kFaultyPartRun, fmt::arg("dir", (dir / "runs").string())));
  try {
    run_session({.config_path = dir / "run.yaml", .overrides = {setting}});
  } catch (const std::exception& error) {
    return std::string(kind_name(kind_of(error))) + ": " + message_of(error);
  }
  return "none";
}

std::string end_with_fault(const std::string& fault) {
  return end_of_run_with("model.fault=" + fault);
}

}  // namespace

TEST_CASE("faults of models: exceptions in training and in evaluation name model and batch",
          "[trainer]") {
  const std::string failed =
      "config: model 'faulty_part' fails for a batch of image Float [8, 3], label Long [8]: ";
  CHECK(end_with_fault("throws in step 2") == failed + "map::at");
  CHECK_THAT(end_with_fault("fails in evaluation batch 2"),
             Catch::StartsWith(failed + "select(): index 1000 out of range"));
  CHECK_THAT(end_with_fault("no loss in evaluation batch 2"),
             Catch::StartsWith("config: model 'faulty_part': forward() returned no loss"));
}

TEST_CASE("faults of models: targets that are not one integer, and a sum with the loss's name",
          "[trainer]") {
  const std::string model = "config: model 'faulty_part': ";
  CHECK(end_with_fault("correct targets") == "none");
  CHECK(end_with_fault("no count of targets") ==
        model +
            "count_targets() returned an undefined tensor for a batch of image Float [2, 3], "
            "label Long [2]; it must return the number of labels, one integer");
  CHECK(end_with_fault("other targets") ==
        model +
            "count_targets() returned 1 for a batch, forward() 2 as targets: they must be "
            "equal");
  CHECK_THAT(end_with_fault("targets per sample"),
             Catch::StartsWith(model + "forward() returned targets as Long [2]; return their "
                                       "number, one integer, for a batch of"));
  CHECK_THAT(end_with_fault("a sum called loss"),
             Catch::StartsWith(model + "forward() returned sums['loss']; choose another name"));
}

TEST_CASE("faults of models: a tensor that the first forward() keeps can be used in training",
          "[trainer]") {
  CHECK(end_with_fault("none") == "none");
  CHECK_THAT(end_with_fault("keeps tensors of evaluations"),
             Catch::Contains("Inference tensors cannot be saved for backward") &&
                 Catch::EndsWith("; a tensor that forward() keeps was made in an evaluation: make "
                                 "it under c10::InferenceMode(false)"));
}

TEST_CASE("faults of optimizers and hooks: exceptions get their names", "[trainer]") {
  CHECK(end_of_run_with("optimizer={name: faulty_part, fault: none}") == "none");
  CHECK(end_of_run_with("optimizer={name: faulty_part, fault: throws}") ==
        "config: optimizer 'faulty_part' fails: no more steps");
  CHECK_THAT(
      end_of_run_with("optimizer={name: faulty_part, fault: fails}"),
      Catch::StartsWith("config: optimizer 'faulty_part' fails: select(): index 1000 out of"));
  CHECK(end_of_run_with("train.hooks=[{name: faulty_part, fault: throws}]") ==
        "config: hook 'faulty_part' fails: vector::at");
}
