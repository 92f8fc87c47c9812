#include "trainer/loop/trial.h"

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
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

}  // namespace

TEST_CASE("trial: a step whose tensors need more memory than permitted ends with that error") {
  const TemporaryDirectory dir;
  write_file_durably(dir / "run.yaml", kTriedRun);
  const auto run = prepare_plan(load_run_config(dir / "run.yaml", {}), RankEnv());
  const auto needed = try_step(run, at::kCPU, 16, 1 << 20);
  REQUIRE(needed);
  CHECK(needed->forward >= 16 * 128 * sizeof(float));
  CHECK_THROWS_AS(try_step(run, at::kCPU, 16, needed->forward / 2), MemoryLimitReached);
  CHECK(try_step(run, at::kCPU, 16, 1 << 20)->whole == needed->whole);
}
