#include <catch2/catch.hpp>

#include "tests/tracking/runs/lab_with_runs.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// A run with this config, whose train/loss went from 4 to `loss`.
void add_run(const LabWithRuns& lab, const std::string& id, const Json& config, double loss) {
  const auto info = sample_info(id);
  create_run_directory(lab / id, info, config);
  EventLogWriter log(event_log_path(lab / id, 0));
  log.identity(info);
  log.config(config);
  log_loss(log, 1, 4);
  log_loss(log, 2, loss);
  if (loss > 1) {
    const std::array<Metric, 1> values = {{{"eval/accuracy", 0.5}}};
    log.scalars({.step = 2, .time = 1.7e9, .epoch = 1, .values = values});
  }
  log.end({.state = RunState::Finished});
}

}  // namespace

TEST_CASE("runs compare: shows differences side by side, and the metrics") {
  LabWithRuns lab;
  add_run(lab, "a", {{"optimizer", {{"lr", 0.1}, {"name", "sgd"}}}, {"sizes", {1, 2}}, {"seed", 1}},
          0.25);
  add_run(lab, "b",
          {{"optimizer", {{"lr", 0.2}, {"name", "sgd"}}},
           {"sizes", {1, 3}},
           {"seed", 1},
           {"debug", true}},
          2);
  CHECK(
      lab.json({"compare", "a", "b"}) ==
      Json{{"runs", {"a", "b"}},
           {"config",
            {{"debug", {{"b", true}}},
             {"optimizer.lr", {{"a", 0.1}, {"b", 0.2}}},
             {"sizes", {{"a", {1, 2}}, {"b", {1, 3}}}}}},
           {"metrics",
            {{"eval/accuracy",
              {{"b", {{"last", 0.5}, {"min", 0.5}, {"max", 0.5}, {"step", 2}, {"count", 1}}}}},
             {"train/loss",
              {{"a", {{"last", 0.25}, {"min", 0.25}, {"max", 4.0}, {"step", 2}, {"count", 2}}},
               {"b", {{"last", 2.0}, {"min", 2.0}, {"max", 4.0}, {"step", 2}, {"count", 2}}}}}}}});
  CHECK(lab({"compare", "b", "a"}) ==
        "config        b      a\n"
        "debug         true   -\n"
        "optimizer.lr  0.2    0.1\n"
        "sizes         [1,3]  [1,2]\n"
        "\n"
        "metric              b    a\n"
        "eval/accuracy last  0.5  -\n"
        "eval/accuracy min   0.5  -\n"
        "eval/accuracy max   0.5  -\n"
        "train/loss last     2    0.25\n"
        "train/loss min      2    0.25\n"
        "train/loss max      4    4\n");
}

TEST_CASE("runs compare: three runs, and runs with equal settings") {
  LabWithRuns lab;
  for (const char* id : {"a", "b", "c"}) add_run(lab, id, {{"seed", 1}}, 0.5);
  CHECK(lab.json({"compare", "a", "b", "c"})["config"].empty());
  CHECK(lab({"compare", "a", "b", "c"}).starts_with("the configs are identical\n\nmetric "));
  add_run(lab, "d", {{"seed", nullptr}}, std::numeric_limits<double>::quiet_NaN());
  const auto json = lab.json({"compare", "a", "b", "d"});
  CHECK(json["config"] == Json{{"seed", {{"a", 1}, {"b", 1}, {"d", nullptr}}}});
  CHECK(json["metrics"]["train/loss"]["d"]["last"] == "nan");
}

TEST_CASE("runs compare: requires two different runs") {
  LabWithRuns lab;
  lab.add("mnist-1");
  CHECK(lab.error_of({"compare"}) ==
        "config: lockstep runs compare: missing run ID; 'lockstep runs list' lists the runs");
  CHECK(lab.error_of({"compare", "mnist-1"}) ==
        "config: lockstep runs compare: expected at least two run IDs, got one");
  CHECK(lab.error_of({"compare", "mnist-1", "mnist"}) ==
        "config: lockstep runs compare: run 'mnist-1' is given twice");
  CHECK(lab.error_of({"compare", "mnist-1", "x"}).starts_with("config: there is no run 'x'"));
}
