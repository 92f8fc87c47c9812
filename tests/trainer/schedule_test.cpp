#include "lockstep/schedule.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "lockstep/part.h"
#include "trainer/config/run_length.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

double factor(const std::string& yaml, int64_t step, ScheduleSpan span) {
  Part<Schedule, const ScheduleSpan&> part(schedule_registry());
  part.read(parse_config("s: " + yaml, "test").find("s")[0], "schedule");
  return part.build(span)->factor(step);
}

// Of 1003 samples.
data::BatchPlan plan_of(int64_t batch_size) {
  data::LoaderConfig config;
  config.batch_size = batch_size;
  return data::plan_batches(config, 1003, {});
}

}  // namespace

TEST_CASE("schedules: constant, and warm-up with cosine decay") {
  const ScheduleSpan span{.total_steps = 110, .steps_per_epoch = 10};
  CHECK(factor("{name: constant}", 57, span) == 1);
  const auto* cosine = "{name: cosine, warmup_steps: 10, final_factor: 0.2}";
  CHECK(factor(cosine, 0, span) == Approx(0.1));
  CHECK(factor(cosine, 9, span) == Approx(1));
  CHECK(factor(cosine, 60, span) == Approx(0.6));
  CHECK(factor(cosine, 110, span) == Approx(0.2));
  CHECK_THROWS_WITH(factor("{name: cosine, warmup_steps: 110}", 0, span),
                    Catch::Contains("less than the steps"));
}

TEST_CASE("schedules: warm-up with linear decay, and steps at milestones") {
  const ScheduleSpan span{.total_steps = 110, .steps_per_epoch = 10};
  const auto* linear = "{name: linear, warmup_steps: 10, final_factor: 0.2}";
  CHECK(factor(linear, 4, span) == Approx(0.5));
  CHECK(factor(linear, 10, span) == Approx(1));
  CHECK(factor(linear, 60, span) == Approx(0.6));
  CHECK(factor(linear, 110, span) == Approx(0.2));
  const auto* falls = "{name: step, milestones: [3, 6], gamma: 0.5, warmup_steps: 4}";
  CHECK(factor(falls, 1, span) == Approx(0.5));
  CHECK(factor(falls, 29, span) == 1);
  CHECK(factor(falls, 30, span) == 0.5);
  CHECK(factor(falls, 60, span) == 0.25);
  CHECK_THROWS_WITH(factor("{name: step, milestones: [6, 3]}", 0, span),
                    Catch::Contains("expected ascending epochs"));
  CHECK_THROWS_WITH(factor("{name: step}", 0, span), Catch::Contains("milestones"));
  CHECK_THROWS_WITH(factor("{name: linear, warmup_steps: 110}", 0, span),
                    Catch::Contains("less than the steps"));
}

TEST_CASE("schedules: bad settings are rejected") {
  const ScheduleSpan span{.total_steps = 100, .steps_per_epoch = 10};
  CHECK_THROWS_WITH(factor("{name: wsd}", 0, span), Catch::Contains("decay_steps: is required"));
  CHECK_THROWS_WITH(factor("{name: wsd, warmup_steps: 60, decay_steps: 50}", 0, span),
                    Catch::Contains("at most the steps of the run (100)"));
  CHECK_THROWS_WITH(factor("{name: one_cycle, rise: 1}", 0, span), Catch::Contains("rise"));
  CHECK_THROWS_WITH(factor("{name: chained}", 0, span), Catch::Contains("schedules: is required"));
  CHECK_THROWS_WITH(factor("{name: chained, schedules: []}", 0, span),
                    Catch::Contains("a list such"));
  CHECK_THROWS_WITH(factor("{name: chained, schedules: [{name: cosine}, {name: linear}]}", 0, span),
                    Catch::Contains("schedules[0].steps: is required, except for the last"));
  CHECK_THROWS_WITH(
      factor("{name: chained, schedules: [{name: cosine, steps: 100}, {name: linear}]}", 0, span),
      Catch::Contains("have 100 steps, all of the run's 100"));
  CHECK_THROWS_WITH(factor("{name: chained, schedules: [{name: chained}]}", 0, span),
                    Catch::Contains("cannot contain another"));
  CHECK_THROWS_WITH(factor("{name: chained, schedules: [{name: cosine, steps: 0}]}", 0, span),
                    Catch::Contains("at least 1"));
}

TEST_CASE("schedules: a stage of a chain may be all warm-up, and its errors name it") {
  const ScheduleSpan span{.total_steps = 100, .steps_per_epoch = 10};
  const auto chain = [](int warmup, int last_warmup) {
    return fmt::format(
        "{{name: chained, schedules: [{{name: constant, warmup_steps: {}, steps: 20}}, "
        "{{name: cosine, warmup_steps: {}}}]}}",
        warmup, last_warmup);
  };
  CHECK(factor(chain(20, 0), 4, span) == Approx(0.25));
  CHECK(factor(chain(20, 0), 20, span) == 1);
  CHECK(factor(chain(20, 0), 60, span) == Approx(0.5));
  CHECK_THROWS_WITH(factor(chain(21, 0), 0, span),
                    "schedule.schedules[0] (20 steps): schedule.warmup_steps (21) must be at most "
                    "its `steps` (20)");
  CHECK_THROWS_WITH(factor(chain(20, 80), 0, span),
                    Catch::StartsWith("schedule.schedules[1] (80 steps): schedule.warmup_steps"));
}

TEST_CASE("length of a run: at every position the same, if all steps are alike") {
  for (const int64_t accumulate : {1, 4}) {
    TrainSection train;
    train.epochs = 3;
    train.accumulate = accumulate;
    const auto plan = plan_of(48);
    const auto whole = length_of_run(train, plan);
    CHECK(whole.total_steps == 3 * whole.steps_per_epoch);
    CHECK(whole.steps_per_epoch == (accumulate == 1 ? 21 : 6));
    Position position;
    for (; position.epoch < 3; ++position.step) {
      const auto length = length_of_run(train, plan, position);
      CHECK(length.total_steps == whole.total_steps);
      CHECK(length.epoch_shift == 0);
      CHECK(length.epoch_of(position.step) == position.epoch);
      position.samples += 48 * accumulate;
      if (position.samples >= 1003) position = {position.step, position.epoch + 1, 0, 0};
    }
    CHECK(length_of_run(train, plan, position).total_steps == position.step);
    train.max_steps = 5;
    CHECK(length_of_run(train, plan).total_steps == 5);
  }
}

TEST_CASE("length of a run: max_steps without epochs takes as many epochs as it needs") {
  TrainSection train;
  CHECK(length_of_run(train, plan_of(48)).total_steps == 21);
  CHECK(train.num_epochs() == 1);
  train.max_steps = 1'000'000'000;
  CHECK(length_of_run(train, plan_of(48)).total_steps == 1'000'000'000);
  CHECK_FALSE(train.num_epochs());
  const Position position{.step = 25, .epoch = 1, .samples = 192};
  CHECK(length_of_run(train, plan_of(48), position).total_steps == 1'000'000'000);
  train.epochs = 2;
  CHECK(length_of_run(train, plan_of(48)).total_steps == 42);
}

TEST_CASE("length of a run: the rest of the epochs, with steps of another size") {
  const Position position{.step = 25, .epoch = 1, .samples = 192};
  TrainSection train;
  train.epochs = 3;
  const auto length = length_of_run(train, plan_of(96), position);
  CHECK(length.steps_per_epoch == 11);
  CHECK(length.total_steps == 25 + 9 + 11);  // 811 samples of this epoch are left
  CHECK(length.epoch_of(25) == 1);
  CHECK(length.epoch_of(33) == 1);
  CHECK(length.epoch_of(34) == 2);
  CHECK(factor("{name: step, milestones: [2], gamma: 0.5}", 33, length) == 1);
  CHECK(factor("{name: step, milestones: [2], gamma: 0.5}", 34, length) == 0.5);
  CHECK(factor("{name: exponential, gamma: 0.5}", 33, length) == 0.5);
  CHECK(factor("{name: exponential, gamma: 0.5}", 34, length) == 0.25);
  train.epochs = 1;
  CHECK(length_of_run(train, plan_of(96), position).total_steps == 25);
}

TEST_CASE("length of a run: data that end before the checkpoint are refused, if steps are left") {
  TrainSection train;
  train.epochs = 2;
  const auto plan = plan_of(48);  // of 1003 samples
  CHECK_NOTHROW(length_of_run(train, plan, {.step = 25, .epoch = 1, .samples = 1003}));
  const Position position{.step = 25, .epoch = 1, .samples = 1056};
  CHECK_THROWS_WITH(length_of_run(train, plan, position),
                    Catch::StartsWith("the checkpoint of step 25 is after 1056 samples of an "
                                      "epoch, but data.train has only 1003: resume"));
  train.max_steps = 25;
  CHECK(length_of_run(train, plan, position).total_steps == 25);
}
