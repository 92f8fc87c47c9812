#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <stdexcept>
#include <string_view>

#include "core/system/durable_file.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/part.h"
#include "lockstep/session.h"
#include "tests/temporary_directory.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

constexpr const char* kLoopRun = R"(
run: {{name: loop, dir: "{dir}"}}
model: {{name: mlp, inputs: 3, hidden: [4], classes: 2}}
data:
  train: {train}
  eval:
    name: synthetic
    samples: 16
    fields: {{image: {{shape: [3]}}, label: {{dtype: int64, values: uniform, high: 2}}}}
  batch_size: 8
  shuffle: false
optimizer: {{name: adamw, lr: 0.05}}
train: {{max_steps: 8, eval_every: 3 steps, log_every: 2 steps, accumulate: {accumulate}}}
checkpoint: {{every: 4 steps, resume: auto}}
tracking: {{sinks: []}}
)";

constexpr const char* kSynthetic =
    "{name: synthetic, samples: 128, fields: {image: {shape: [3]}, label: {dtype: int64, values: "
    "uniform, "
    "high: 2}}}";

struct LoopRun {
  SessionOptions options(const std::string& train = "{name: program}") {
    write_file_durably(dir / "run.yaml", fmt::format(kLoopRun, fmt::arg("train", train),
                                                     fmt::arg("accumulate", accumulate),
                                                     fmt::arg("dir", (dir / "runs").string())));
    return {.config_path = dir / "run.yaml", .resume_id = resume_id};
  }

  // The samples of kSynthetic that a run of it trains on in this step.
  Batch batch(int64_t step) {
    if (!dataset) {
      Part<Dataset> part(dataset_registry());
      part.read(parse_config(kSynthetic, "test"), "train");
      dataset = part.build();
    }
    const auto count = 8 * accumulate;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < count; ++i) indices.push_back(step * count + i);
    auto batch = gather(*dataset, {.indices = indices});
    batch.indices = at::Tensor();
    return batch;
  }

  TemporaryDirectory dir;
  std::optional<std::string> resume_id;
  int64_t accumulate = 1;
  std::shared_ptr<Dataset> dataset;
};

// Of the first row that has it.
double first_value(const tracking::LogContents& log, std::string_view name) {
  for (const auto& row : log.rows)
    for (const auto& [key, value] : row.values)
      if (log.keys[key] == name) return value;
  throw std::out_of_range("not logged: " + std::string(name));
}

}  // namespace

TEST_CASE("a training loop has the bits of a run on the same samples", "[trainer]") {
  LoopRun run;
  run.accumulate = GENERATE(1, 2);
  const auto whole = run_session(run.options(kSynthetic));

  TrainingLoop loop(run.options(), run.batch(0));
  CHECK(loop.total_steps() == 8);
  CHECK(std::isnan(loop.loss()));
  while (!loop.is_done()) {
    const auto step = loop.steps();
    loop.step(run.batch(step));
    CHECK(loop.steps() == step + 1);
    CHECK(std::isfinite(loop.loss()));
  }
  const auto result = loop.finish();
  CHECK(result.stopped == std::nullopt);
  CHECK(result.evaluation == whole.evaluation);
  const auto weights = [](const SessionResult& of) {
    return read_file(tracking::checkpoints_path(of.run_dir) / "8" / "model.safetensors");
  };
  CHECK(weights(result) == weights(whole));
  const auto logged = [](const SessionResult& of) {
    return tracking::read_event_log(tracking::event_log_path(of.run_dir, 0)).keys;
  };
  CHECK(logged(result) == logged(whole));
}

TEST_CASE("a training loop evaluates, saves, stops and resumes when the program wants",
          "[trainer]") {
  LoopRun run;
  EvaluationResult before;
  {
    TrainingLoop loop(run.options(), run.batch(0));
    CHECK_THROWS_WITH(loop.save(), Catch::Contains("before the first step"));
  }
  TrainingLoop loop(run.options(), run.batch(0));
  CHECK(loop.evaluate().contains("accuracy"));
  loop.step(run.batch(0));
  loop.step(run.batch(1));
  before = loop.evaluate();
  loop.save();
  const auto result = loop.finish();
  CHECK(result.stopped == StopReason::EarlyStop);
  CHECK(result.reason ==
        "stopped early after step 2 of 8, with a checkpoint: the program ended its loop");
  CHECK(list_checkpoints(tracking::checkpoints_path(result.run_dir)) == std::vector<int64_t>{2});

  run.resume_id = result.run_id;
  TrainingLoop resumed(run.options(), run.batch(0));
  CHECK(resumed.steps() == 2);
  CHECK(resumed.evaluate() == before);
  while (!resumed.is_done()) resumed.step(run.batch(resumed.steps()));
  CHECK_THROWS_WITH(resumed.step(run.batch(0)), Catch::Contains("the training has ended"));
  const auto evaluation = resumed.finish().evaluation;
  run.resume_id.reset();
  CHECK(evaluation == run_session(run.options(kSynthetic)).evaluation);
}

TEST_CASE("a training loop reports wrong input in one line, and fails the run", "[trainer]") {
  LoopRun run;
  const auto of_size = [&](int64_t count) {
    auto batch = run.batch(0);
    for (auto& [name, tensor] : batch.fields) tensor = tensor.narrow(0, 0, count);
    return batch;
  };
  {
    TrainingLoop loop(run.options(), of_size(1));
    CHECK_THROWS_WITH(
        loop.step(of_size(5)),
        Catch::Contains("the batch has 5 samples on this rank, a step needs at least 8 "
                        "(data.batch_size, train.accumulate)"));
    CHECK(loop.is_done());
  }
  {
    TrainingLoop loop(run.options(), of_size(1));
    run.accumulate = 2;
    CHECK_THROWS_WITH(loop.step(run.batch(0)),
                      "TrainingLoop: the batch has 16 samples on this rank, a step needs 8 "
                      "(data.batch_size, train.accumulate)");
    run.accumulate = 1;
  }
  CHECK_THROWS_WITH(TrainingLoop(run.options(), {}), "TrainingLoop: the batch has no fields");
  CHECK_THROWS_WITH(TrainingLoop(run.options(), of_size(0)),
                    "TrainingLoop: the example of a batch has no samples");
  auto wrong = run.batch(0);
  wrong.fields.front().second = at::zeros({8, 4});
  CHECK_THROWS_AS(TrainingLoop(run.options(), wrong), Error);
  CHECK_THROWS_WITH(run_session(run.options()), Catch::Contains("gets its samples from a program"));
  CHECK_THROWS_WITH(TrainingLoop(run.options(kSynthetic), run.batch(0)),
                    "data.train: expected the dataset 'program', which has the batches that the "
                    "program passes to its TrainingLoop");
  for (const auto* setting : {"data.eval={name: program}", "data.split.eval=0.5"}) {
    auto evaluated = run.options();
    evaluated.overrides = {setting};
    CHECK_THROWS_WITH(TrainingLoop(evaluated, run.batch(0)),
                      Catch::Contains("the dataset 'program' is for data.train only"));
  }
  auto audited = run.options();
  audited.overrides = {"distributed.virtual_shards=2", "train.audit.gradients_every=1"};
  CHECK_THROWS_WITH(TrainingLoop(audited, run.batch(0)),
                    Catch::Contains("train.audit.gradients_every reads samples a second time"));
}

TEST_CASE("a training loop counts the operations of a step, not those before it", "[trainer]") {
  LoopRun run;
  const auto flops_of_step = [&](bool evaluates_first) {
    TrainingLoop loop(run.options(), run.batch(0));
    if (evaluates_first) loop.evaluate();
    while (!loop.is_done()) loop.step(run.batch(loop.steps()));
    const auto log = tracking::read_event_log(tracking::event_log_path(loop.finish().run_dir, 0));
    return first_value(log, "train/flops_per_step");
  };
  const auto flops = flops_of_step(false);
  CHECK(flops > 0);
  CHECK(flops_of_step(true) == flops);
}

TEST_CASE("a training loop: an evaluation that a signal interrupts has no result", "[trainer]") {
  LoopRun run;
  auto options = run.options();
  options.handle_signals = true;
  options.overrides = {"data.eval.samples=64", "data.eval_batch_size=1"};
  TrainingLoop loop(options, run.batch(0));
  CHECK(loop.evaluate().contains("loss"));
  std::raise(SIGUSR1);
  CHECK(loop.evaluate().empty());
}

TEST_CASE("a process has one training loop at a time", "[trainer]") {
  LoopRun run;
  TrainingLoop loop(run.options(), run.batch(0));
  CHECK_THROWS_WITH(
      TrainingLoop(run.options(), run.batch(0)),
      "TrainingLoop: this process has another one, which has not ended: end it first");
  loop.step(run.batch(0));
  CHECK(loop.finish().stopped == StopReason::EarlyStop);
  TrainingLoop next(run.options(), run.batch(0));
  next.step(run.batch(0));
  CHECK(next.steps() == 1);
}
