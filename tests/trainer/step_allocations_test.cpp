// Compares allocations of a trainer step with those of the bare LibTorch calls it consists of.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/part.h"
#include "lockstep/session.h"
#include "lockstep/tracker.h"
#include "tests/counted_allocations.h"
#include "tests/temporary_directory.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;

namespace {

constexpr const char* kRun = R"(
run: {{name: small, dir: "elsewhere"}}
model: {{name: mlp, inputs: 3, hidden: [4], classes: 2}}
data:
  train:
    name: synthetic
    samples: 20000
    fields: {{image: {{shape: [3]}}, label: {{dtype: int64, values: uniform, high: 2}}}}
  batch_size: 16
  workers: 1
optimizer: {optimizer}
train: {{epochs: 1000, max_steps: {steps}, log_every: 1000000 steps}}
checkpoint: {{every: 1000000 epochs}}
tracking: {{sinks: []}}
)";

// Allocations of a whole run of the given number of steps, on the training thread.
uint64_t allocations_of_run(const std::string& optimizer, int steps) {
  const TemporaryDirectory dir;
  write_file_durably(dir / "run.yaml",
                     fmt::format(kRun, fmt::arg("optimizer", optimizer), fmt::arg("steps", steps)));
  const RunInfo process{.id = "mine", .name = "mine", .job_id = "mine", .world_size = 1};
  create_run_directory(dir / "mine", process, Json::object());
  auto tracker = open_tracker({.run_dir = dir / "mine", .process = process});
  return allocations_of([&] {
    run_session({.config_path = dir / "run.yaml", .own_run = OwnRun{tracker, dir / "mine"}});
  });
}

double allocations_of_step(const std::string& optimizer) {
  constexpr int kSteps = 50;
  const auto once = allocations_of_run(optimizer, kSteps);
  return static_cast<double>(allocations_of_run(optimizer, 3 * kSteps) - once) / (2 * kSteps);
}

// The model's forward pass, autograd, and the optimizer.
double allocations_of_bare_step(const std::string& optimizer_text) {
  Part<Model> model_part(model_registry());
  model_part.read(
      parse_config("m: {name: mlp, inputs: 3, hidden: [4], classes: 2}", "test").find("m")[0],
      "model");
  const auto model = model_part.build();
  NamedTensors parameters;
  for (const auto& item : model->named_parameters())
    parameters.emplace_back(item.key(), item.value());
  Part<Optimizer, const NamedTensors&> part(optimizer_registry());
  part.read(parse_config("o: " + optimizer_text, "test").find("o")[0], "optimizer");
  const auto optimizer = part.build(parameters);
  Batch batch;
  batch.indices = at::arange(16, at::kLong);
  batch.fields = {{"image", at::rand({16, 3})}, {"label", batch.indices % 2}};
  uint64_t count = 0;
  for (int step = 0; step < 5; ++step)
    count = allocations_of([&] {
      for (auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
      model->forward(batch).loss.backward();
      const at::NoGradGuard no_grad;
      optimizer->step(1e-3);
    });
  return static_cast<double>(count);
}

}  // namespace

TEST_CASE("allocations: a trainer step adds none to model and optimizer", "[trainer]") {
  for (const std::string optimizer : {"{name: sgd, lr: 0.1}", "{name: adamw, lr: 0.1}"}) {
    const auto bare = allocations_of_bare_step(optimizer);
    INFO(optimizer << ": " << bare << " bare");
    CHECK(allocations_of_step(optimizer) - bare < 1);
  }
}
