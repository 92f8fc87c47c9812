#include "lockstep/hook.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/session.h"
#include "tests/temporary_directory.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

// By the hook of the run that was last.
std::vector<std::string> called;
std::filesystem::path failed_run;

struct NotingHookConfig {
  std::string stop_in, fail_in, throw_in;  // "after_step 2"
};

template <class V>
void fields(V& v, NotingHookConfig& c) {
  v("stop_in", c.stop_in, "the call in which it ends the run");
  v("fail_in", c.fail_in, "the call in which it fails");
  v("throw_in", c.throw_in, "the call in which it throws a number");
}

class NotingHook final : public Hook {
 public:
  using Config = NotingHookConfig;
  explicit NotingHook(const Config& config) : config_(config) { called.clear(); }

  void before_run(HookContext& run) override {
    note("before_run", run);
    CHECK(run.total_steps == 8);
    CHECK(run.world.world_size() == 1);
  }
  void after_run(HookContext& run) override { note("after_run", run); }
  void before_epoch(HookContext& run) override { note("before_epoch", run); }
  void after_epoch(HookContext& run) override { note("after_epoch", run); }
  void before_step(HookContext& run) override { note("before_step", run); }
  void after_step(HookContext& run) override {
    note("after_step", run);
    CHECK(run.model.parameters().front().grad().defined());
    run.tracker.log(run.step, run.epoch, std::vector<Metric>{{"hook/step", 1}});
  }
  void before_evaluation(HookContext& run) override { note("before_evaluation", run); }
  void after_evaluation(HookContext& run, const EvaluationResult& result) override {
    note("after_evaluation", run);
    CHECK(result.contains("loss"));
  }
  void before_checkpoint(HookContext& run) override { note("before_checkpoint", run); }
  void after_checkpoint(HookContext& run) override { note("after_checkpoint", run); }
  void on_failure(HookContext& run, const std::exception& error) override {
    note(fmt::format("on_failure '{}'", error.what()), run);
    failed_run = run.run_dir;
    if (!config_.throw_in.empty()) throw 42;
    throw config_error("one more");
  }

 private:
  void note(const std::string& call, HookContext& run) {
    const auto text = fmt::format("{} {}", call, run.step);
    called.push_back(text);
    if (text == config_.stop_in) run.stop = "the test said so";
    if (text == config_.fail_in) throw config_error("the hook fails");
    if (text == config_.throw_in) throw 42;
  }

  Config config_;
};

REGISTER_HOOK("noting", NotingHook, "notes how it is called");

constexpr const char* kHookedRun = R"(
run: {{name: small, dir: "{dir}"}}
model: {{name: mlp, inputs: 3, hidden: [4], classes: 2}}
data:
  train:
    name: synthetic
    samples: 64
    fields: {{image: {{shape: [3]}}, label: {{dtype: int64, values: uniform, high: 2}}}}
  eval:
    name: synthetic
    samples: 16
    fields: {{image: {{shape: [3]}}, label: {{dtype: int64, values: uniform, high: 2}}}}
  batch_size: 16
train: {{epochs: 2, hooks: [{hook}]}}
checkpoint: {{every: 3 steps, resume: auto}}
tracking: {{sinks: []}}
)";

// Trains kHookedRun with this hook.
struct HookedRun {
  SessionResult train(const std::string& hook) {
    write_file_durably(dir / "run.yaml", fmt::format(kHookedRun, fmt::arg("hook", hook),
                                                     fmt::arg("dir", (dir / "runs").string())));
    return run_session({.config_path = dir / "run.yaml", .resume_id = resume_id});
  }

  TemporaryDirectory dir;
  std::optional<std::string> resume_id;
};

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("hooks: calls are in the documented order", "[trainer]") {
  HookedRun run;
  const auto result = run.train("noting");
  CHECK(called == Calls{"before_run 0",        "before_epoch 0",      "before_step 0",
                        "after_step 1",        "before_step 1",       "after_step 2",
                        "before_step 2",       "after_step 3",        "before_checkpoint 3",
                        "after_checkpoint 3",  "before_step 3",       "after_step 4",
                        "before_evaluation 4", "after_evaluation 4",  "after_epoch 4",
                        "before_epoch 4",      "before_step 4",       "after_step 5",
                        "before_step 5",       "after_step 6",        "before_checkpoint 6",
                        "after_checkpoint 6",  "before_step 6",       "after_step 7",
                        "before_step 7",       "after_step 8",        "before_evaluation 8",
                        "after_evaluation 8",  "before_checkpoint 8", "after_checkpoint 8",
                        "after_epoch 8",       "after_run 8"});
  const auto log = tracking::read_event_log(tracking::event_log_path(result.run_dir, 0));
  CHECK(std::ranges::count(log.keys, "hook/step") == 1);
}

TEST_CASE("hooks: a hook can stop the run, with a checkpoint and its reason", "[trainer]") {
  HookedRun run;
  const auto result = run.train("{name: noting, stop_in: before_step 4}");
  CHECK(result.stopped == StopReason::EarlyStop);
  CHECK(result.reason == "stopped early after step 5 of 8, with a checkpoint: the test said so");
  CHECK(list_checkpoints(tracking::checkpoints_path(result.run_dir)).back() == 5);
  CHECK(called.back() == "after_run 5");

  run.resume_id = result.run_id;
  CHECK(run.train("noting").stopped == std::nullopt);
  CHECK(Calls(called.begin(), called.begin() + 3) ==
        Calls{"before_run 5", "before_epoch 5", "before_step 5"});
}

TEST_CASE("hooks: a stop in the last step has no effect", "[trainer]") {
  HookedRun run;
  const auto result = run.train("{name: noting, stop_in: after_step 8}");
  CHECK(result.stopped == std::nullopt);
  CHECK(result.reason.empty());
}

TEST_CASE("hooks: a failing hook ends the run with its error, and is notified", "[trainer]") {
  HookedRun run;
  CHECK_THROWS_WITH(run.train("{name: noting, fail_in: after_step 2}"), "the hook fails");
  CHECK(Calls(called.end() - 2, called.end()) ==
        Calls{"after_step 2", "on_failure 'the hook fails' 2"});
  CHECK_THROWS_WITH(run.train("{name: noting, stop_at: 2}"), Catch::Contains("stop_at"));
  CHECK_THROWS_WITH(run.train("notin"), Catch::Contains("did you mean 'noting'"));
}

TEST_CASE("hooks: an exception that is not a std::exception fails the run", "[trainer]") {
  HookedRun run;
  const std::string error = "a plugin threw an exception of an unknown type";
  CHECK_THROWS_WITH(run.train("{name: noting, throw_in: after_step 2}"), error);
  CHECK(called.back() == "on_failure '" + error + "' 2");
  const auto log = tracking::read_event_log(tracking::event_log_path(failed_run, 0));
  REQUIRE(log.end);
  CHECK(log.end->state == RunState::Failed);
  CHECK(log.end->reason == error);
}
