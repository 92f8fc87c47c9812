#include "sweep/sweep_directory.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::sweep;
using Catch::Contains;

namespace {

SweepInfo info_of(const std::string& yaml = "x: {uniform: [0, 1]}") {
  SweepInfo info{.id = "s-1", .created = 5, .ranks = 2};
  info.file.name = "s";
  info.file.space = ConfigValue<Space>::read(parse_config(yaml, "sweep.yaml"), "space");
  info.file.objective.all = {{.metric = "eval/loss"}};
  info.file.budget.trials = 10;
  return info;
}

const Json kRun = {{"run", {{"name", "a"}}}, {"path", "${x}"}};

}  // namespace

TEST_CASE("a sweep is read back from its directory, with its trials") {
  const TemporaryDirectory dir;
  const auto path = sweeps_path(dir.path()) / "s";
  const auto made = SweepDirectory::open_or_create(path, info_of(), kRun);
  auto trial = *made.add(TrialSource::Search);
  CHECK(trial.number == 0);
  trial.state = TrialState::Pruned;
  trial.values = {std::nan("")};
  trial.evaluations = {{10, 0.5}, {20, std::nan("")}};
  trial.runs = {"r"};
  trial.reason = "worse";
  trial.ended = 7;
  made.write(trial);
  CHECK(made.add(TrialSource::Hand, Point{{"x", 0.25}})->number == 1);

  const SweepDirectory read(path);
  CHECK(read.info().id == "s-1");
  CHECK(read.info().ranks == 2);
  CHECK(read.runs() == dir.path());
  const auto trials = read.trials();
  REQUIRE(trials.size() == 2);
  CHECK(to_json(trials[0]) == to_json(trial));
  CHECK(std::isnan(trials[0].values[0]));
  CHECK(trials[1].parameters == Point{{"x", 0.25}});
  CHECK(read_config_file(read.run_file()).find("path")->scalar == "$${x}");
}

TEST_CASE("only the budget of a sweep with trials may change") {
  const TemporaryDirectory dir;
  const auto path = dir / "s";
  const auto open = [&](const SweepInfo& info, const Json& run = kRun) {
    return SweepDirectory::open_or_create(path, info, run);
  };
  open(info_of());
  open(info_of("y: {uniform: [0, 1]}"));  // no trials yet
  open(info_of()).add(TrialSource::Search);
  auto changed = info_of();
  changed.file.budget.trials = 20;
  changed.id = "s-2";
  CHECK(open(changed).info().id == "s-1");
  CHECK(SweepDirectory(path).file().budget.trials == 20);
  const auto refused = [&](const SweepInfo& info, const Json& run, const std::string& what) {
    CHECK_THROWS_WITH(open(info, run), Contains("exists with another " + what));
  };
  refused(info_of("y: {uniform: [0, 1]}"), kRun, "space");
  refused(info_of(), {{"run", {{"name", "b"}}}}, "run file");
  changed.ranks = 3;
  refused(changed, kRun, "number of ranks");
}

TEST_CASE("a sweep is complete with its last trial, or when its target is reached") {
  const TemporaryDirectory dir;
  auto info = info_of();
  info.file.budget.trials = 3;
  info.file.budget.target = 0.5;
  const auto sweep = SweepDirectory::open_or_create(dir / "s", info, kRun);
  for (const auto value : {0.6, std::nan(""), 0.5}) {
    CHECK_FALSE(sweep.is_complete(sweep.trials()));
    auto trial = *sweep.add(TrialSource::Ask);
    trial.state = TrialState::Finished;
    trial.values = {value};
    sweep.write(trial);
    CHECK(sweep.has_reached_target(sweep.trials()) == (value == 0.5));
  }
  CHECK(sweep.is_complete(sweep.trials()));
  CHECK_FALSE(sweep.add(TrialSource::Search));
  info.file.budget.trials = 4;
  CHECK(SweepDirectory::open_or_create(dir / "s", info, kRun).is_complete(sweep.trials()));
  info.file.budget.target = 0.4;
  CHECK_FALSE(SweepDirectory::open_or_create(dir / "s", info, kRun).is_complete(sweep.trials()));
}

TEST_CASE("one process at a time runs a sweep") {
  const TemporaryDirectory dir;
  const auto sweep = SweepDirectory::open_or_create(dir / "s", info_of(), kRun);
  CHECK_FALSE(sweep.is_controlled());
  {
    const auto lock = sweep.lock_controller(false);
    CHECK(sweep.is_controlled());
    CHECK_THROWS_WITH(sweep.lock_controller(false), Contains("already run by another process"));
    CHECK_THROWS_WITH(sweep.lock_controller(true), Contains("without --join"));
  }
  CHECK_FALSE(sweep.is_controlled());
}

TEST_CASE("several processes share a sweep, but not a trial") {
  const TemporaryDirectory dir;
  const auto sweep = SweepDirectory::open_or_create(dir / "s", info_of(), kRun);
  sweep.request_stop();
  {
    const auto first = sweep.lock_controller(true);
    CHECK_FALSE(sweep.stop_requested());
    sweep.request_stop();
    const auto second = sweep.lock_controller(true);
    CHECK(sweep.stop_requested());  // for both
    CHECK(sweep.is_controlled());
    CHECK_THROWS_WITH(sweep.lock_controller(false), Contains("already run by another process"));
    const auto trial = sweep.lock_trial(3);
    CHECK(trial.is_open());
    CHECK_FALSE(sweep.lock_trial(3).is_open());
    CHECK(sweep.lock_trial(4).is_open());
  }
  CHECK_FALSE(sweep.is_controlled());
  CHECK(sweep.lock_trial(3).is_open());
}

TEST_CASE("trials written by hand need a number and parameters only; corrupt ones are refused") {
  const TemporaryDirectory dir;
  const auto sweep = SweepDirectory::open_or_create(dir / "s", info_of(), kRun);
  write_file_durably(dir.path() / "s/trials/00004.json",
                     R"({"number": 4, "parameters": {"x": 1}})");
  CHECK(sweep.find(4)->by == TrialSource::Hand);
  CHECK(sweep.add(TrialSource::Search)->number == 5);
  write_file_durably(dir.path() / "s/trials/00006.json", R"({"number": 6})");
  CHECK_THROWS_WITH(sweep.trials(), Contains("00006.json: not a trial"));
  write_file_durably(dir.path() / "s/trials/00006.json", "{");
  CHECK_THROWS_WITH(sweep.trials(), Contains("00006.json"));
  CHECK_THROWS_AS(SweepDirectory(dir / "none"), Error);
}

TEST_CASE("a trial is handed out once, until it is released, and not while a process runs it") {
  const TemporaryDirectory dir;
  auto info = info_of();
  info.file.budget.trials = 3;
  const auto sweep = SweepDirectory::open_or_create(dir / "s", info, kRun);
  sweep.add(TrialSource::Search);
  sweep.add(TrialSource::Hand, Point{{"x", 0.25}});
  {
    const auto running = sweep.lock_trial(1);
    CHECK(sweep.hand_out()->number == 2);
    CHECK_FALSE(sweep.hand_out());
  }
  CHECK(sweep.hand_out()->parameters == Point{{"x", 0.25}});
  CHECK(sweep.find(1)->is_handed_out);
  CHECK(sweep.find(1)->by == TrialSource::Hand);
  CHECK_FALSE(sweep.hand_out());
  auto released = *sweep.find(2);
  released.is_handed_out = false;
  sweep.write(released);
  CHECK(sweep.hand_out()->number == 2);
  CHECK_FALSE(sweep.hand_out());  // the budget
  write_file_durably(dir.path() / "s/trials/00003.json",
                     R"({"number": 3, "parameters": {"x": 2}})");
  CHECK_THROWS_WITH(sweep.hand_out(), Contains("x: 2 is not a number from 0 to 1"));
}

TEST_CASE("settings without effect are refused") {
  const TemporaryDirectory dir;
  const auto problem = [&](const std::string& text) -> std::string {
    write_file_durably(dir / "a.yaml", "run: run.yaml\nobjective: {metric: eval/loss}\n" + text);
    try {
      const auto file = read_sweep_file(dir / "a.yaml");
      return file.name == "a" ? "" : "the name is " + file.name;
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string space = "space: {x: {uniform: [0, 1]}}\n";
  CHECK(problem(space + "budget: {trials: 3}").empty());
  CHECK_THAT(problem(space), Contains("at least one of trials, time, target"));
  CHECK_THAT(problem(space + "search: {name: grid}"), Contains("a grid needs `points: N`"));
  CHECK_THAT(problem("space: {run.name: {choice: [a]}}\nbudget: {trials: 3}"),
             Contains("the sweep sets this key"));
  CHECK_THAT(problem(space + "budgte: {trials: 3}"), Contains("did you mean 'budget'?"));
}
