#include "dashboard/filter/run_filter.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

constexpr double kNow = 1'800'000'000;

struct SampleRun {
  catalog::NameTable names;
  catalog::RunSummary run;

  SampleRun() {
    run.id = "mnist-1";
    run.info.name = "MNIST baseline";
    run.info.group = "sweep-3";
    run.info.created = kNow - 86400;
    run.updated = kNow - 86400 + 7200;
    run.info.host = "node1";
    run.state = RunState::Failed;
    run.end = RunEnd{.state = RunState::Failed, .exit_code = 78};
    run.tags.tags = {"baseline", "good/one"};
    run.config = flatten_config(
        Json::parse(
            R"({"optimizer": {"name": "sgd", "lr": 0.1}, "train": {"amp": true}, "hidden": [1, 2]})"),
        names);
    catalog::SourceSummary source;
    source.metrics.push_back({.name = names.add("eval/accuracy"),
                              .last = 0.9,
                              .min = 0.5,
                              .max = 0.95,
                              .sum = 1.4,
                              .step = 100,
                              .count = 2});
    source.metrics.push_back({.name = names.add("train/loss"),
                              .last = std::nan(""),
                              .min = 0.1,
                              .max = 2,
                              .sum = 2.1,
                              .step = 100,
                              .count = 3,
                              .num_nan = 1});
    source.metrics.push_back({.name = names.add("plain"), .last = 7, .sum = 7, .count = 1});
    run.sources.push_back(source);
  }
  bool matches(const std::string& text) const { return RunFilter(text, kNow).matches(run, names); }
};

size_t column_of_error(const std::string& text) {
  try {
    RunFilter filter(text, kNow);
  } catch (const FilterError& error) {
    return error.column;
  }
  return 0;
}

}  // namespace

TEST_CASE("filter: fields, numbers, strings and patterns") {
  const SampleRun sample;
  for (const char* text : {"",
                           "   ",
                           "state = failed",
                           "state=failed",
                           "exit = 78",
                           "config.optimizer.lr = 0.1",
                           "config.optimizer.lr >= 0.1",
                           "config.optimizer.lr<1e3",
                           "config.optimizer.name = sgd",
                           "config.optimizer.name ~ SG",
                           "config.train.amp = true",
                           "config.hidden = \"[1,2]\"",
                           "tag = baseline",
                           "tag = good/one",
                           "tag = \"good*\"",
                           "tag != nothing",
                           "name = \"MNIST *\"",
                           "name ~ 'mnist'",
                           "group = sweep-*",
                           "id = mnist-1",
                           "eval/accuracy > 0.89",
                           "metric.plain = 7",
                           "min(eval/accuracy) = 0.5",
                           "max(train/loss) <= 2",
                           "mean(eval/accuracy) = 0.7",
                           "count(train/loss) = 3",
                           "train/loss = nan",
                           "created > 7d",
                           "created > 2026-01-01",
                           "duration = 2h",
                           "duration > 1h and duration < \"3 h\"",
                           "has group",
                           "has eval/accuracy",
                           "mnist",
                           "baseline",
                           "\"mnist base\"",
                           "state in (finished, failed)",
                           "not state = running",
                           "not not mnist"}) {
    INFO(text);
    CHECK(sample.matches(text));
  }
  for (const char* text :
       {"state = running", "exit != 78", "config.optimizer.lr > 0.1", "tag = base",
        "tag != baseline", "name = MNIST", "created > 1h", "created < 2026-01-01",
        "has config.nothing", "not has group", "config.nothing = 1", "train/loss > 0",
        "train/loss < 0", "resnet", "state in (finished, lost)", "not mnist",
        "config.train.amp = false", "host !~ node"}) {
    INFO(text);
    CHECK_FALSE(sample.matches(text));
  }
}

TEST_CASE("filter: == compares texts exactly, and other values like =") {
  SampleRun sample;
  sample.run.info.group = "sweep-*";
  for (const char* text :
       {"group == \"sweep-*\"", "exit == 78", "config.train.amp == true", "train/loss == nan"}) {
    INFO(text);
    CHECK(sample.matches(text));
  }
  sample.run.info.group = "sweep-3";
  CHECK(sample.matches("group = \"sweep-*\""));
  for (const char* text : {"group == \"sweep-*\"", "group == SWEEP-3", "exit == 7"}) {
    INFO(text);
    CHECK_FALSE(sample.matches(text));
  }
  CHECK(column_of_error("created == yesterday") == 12);
}

TEST_CASE("filter: a missing field satisfies only != and !~") {
  const SampleRun sample;
  CHECK(sample.matches("config.nothing != 1"));
  CHECK(sample.matches("config.nothing !~ x"));
  CHECK_FALSE(sample.matches("config.nothing < 1"));
  CHECK_FALSE(sample.matches("config.nothing ~ x"));
  CHECK_FALSE(sample.matches("signal = 9"));
}

TEST_CASE(
    "filter: and has precedence over or, parentheses group, adjacent terms are joined by and") {
  const SampleRun sample;
  CHECK(sample.matches("state = running and exit = 1 or tag = baseline"));
  CHECK_FALSE(sample.matches("state = running and (exit = 1 or tag = baseline)"));
  CHECK(sample.matches("tag = baseline or state = running and exit = 1"));
  CHECK(sample.matches("mnist tag = baseline (exit = 78)"));
  CHECK_FALSE(sample.matches("mnist tag = nothing"));
  CHECK(sample.matches("not (state = running or exit = 1) mnist"));
}

TEST_CASE("filter: an error reports its column") {
  CHECK(column_of_error("stat = failed") == 1);
  CHECK(column_of_error("mnist and") == 10);
  CHECK(column_of_error("(mnist") == 7);
  CHECK(column_of_error("exit > many") == 8);
  CHECK(column_of_error("created > yesterday") == 11);
  CHECK(column_of_error("name = \"x") == 8);
  CHECK(column_of_error("a ! b") == 3);
  CHECK(column_of_error("mnist )") == 7);
  CHECK(column_of_error("state in (a b)") == 13);
  CHECK(column_of_error("min(train/loss < 1") > 0);
  CHECK(column_of_error(std::string(300, '(')) > 0);
  CHECK(column_of_error(std::string(5000, 'a')) > 0);
  CHECK_THROWS_WITH(RunFilter("stat = failed", kNow), Catch::Contains("did you mean 'state'?"));
}

TEST_CASE("filter: patterns do not take exponential time") {
  SampleRun sample;
  sample.run.info.name = std::string(2000, 'a');
  CHECK_FALSE(sample.matches("name = \"" + [] {
    std::string stars;
    for (int i = 0; i < 500; ++i) stars += "a*";
    return stars;
  }() + "b\""));
}
