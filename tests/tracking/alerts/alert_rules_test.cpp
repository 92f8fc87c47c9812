#include "tracking/alerts/alert_rules.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoon = 1'800'000'000;

using Titles = std::vector<std::string>;

// Rules with a simulated clock and rank states.
class Watched {
 public:
  explicit Watched(AlertConfig config = {}) : config_(config), rules_(config) { tick(0); }

  Titles log(const std::string& metric, double value, int64_t step = 1, int rank = 0) {
    const Metric values[] = {{metric, value}};
    return keep(rules_.scalars({.step = step, .time = now, .values = values}, rank));
  }
  // The step times of all ranks.
  void log_step_times(int64_t step, double slowest, double seconds, double others, int rank = 0) {
    const Metric values[] = {{"time/slowest_rank", slowest},
                             {"time/slowest_rank_s", seconds},
                             {"time/other_ranks_s", others}};
    keep(rules_.scalars({.step = step, .time = now, .values = values}, rank));
  }
  // Advances the clock by `seconds` and ticks once.
  Titles tick(double seconds) {
    now += seconds;
    return keep(rules_.tick(now, ranks));
  }
  // Ticks `count` times, one second apart.
  Titles ticks(int count) {
    Titles titles;
    for (int i = 0; i < count; ++i)
      for (auto& title : tick(1)) titles.push_back(std::move(title));
    return titles;
  }

  double now = kNoon;
  std::vector<RankState> ranks;
  Alert last;

  // Another process takes over, `passed_s` later.
  void replace(double passed_s) {
    const auto causes = rules_.causes();
    rules_ = AlertRules(config_);
    now += passed_s;
    rules_.restore_causes(causes, passed_s);
    tick(0);
  }

 private:
  Titles keep(const std::vector<Alert>& alerts) {
    Titles titles;
    for (const auto& alert : alerts) titles.push_back(alert.title);
    if (!alerts.empty()) last = alerts.back();
    return titles;
  }

  AlertConfig config_;
  AlertRules rules_;
};

AlertConfig with_condition(const std::string& text) {
  AlertConfig config;
  config.conditions = {std::get<AlertCondition>(parse_condition(text))};
  return config;
}

}  // namespace

TEST_CASE("alerts: a NaN or infinite metric of training or evaluation") {
  Watched run;
  CHECK(run.log("train/loss", 1) == Titles{});
  CHECK(run.log("train/loss", kNan, 7, 3) == Titles{"train/loss is not a finite number"});
  CHECK(run.last.text == "train/loss is nan at step 7 (rank 3)");
  CHECK(run.last.level == TextLevel::Error);
  CHECK(run.last.step == 7);
  CHECK(run.last.time == kNoon);
  CHECK(run.log("eval/accuracy", -kInfinity) == Titles{"eval/accuracy is not a finite number"});
  CHECK(run.last.text == "eval/accuracy is -inf at step 1 (rank 0)");
  CHECK(run.log("system/load", kNan) == Titles{});
  CHECK(run.log("other", kNan) == Titles{});

  AlertConfig off;
  off.nan = false;
  CHECK(Watched(off).log("train/loss", kNan) == Titles{});
}

TEST_CASE("alerts: a cause is reported once, and again only after it was absent for a while") {
  Watched run;
  const Titles reported = {"train/loss is not a finite number"};
  CHECK(run.log("train/loss", kNan) == reported);
  for (int minute = 0; minute < 60; ++minute) {  // it lasts
    CHECK(run.ticks(60) == Titles{});
    CHECK(run.log("train/loss", kNan, minute) == Titles{});
    CHECK(run.log("train/loss", kNan, minute, 1) == Titles{});  // on all ranks
  }
  run.log("train/loss", 1);
  run.ticks(300);
  CHECK(run.log("train/loss", kNan) == Titles{});  // absent for only 5 minutes
  run.ticks(599);
  CHECK(run.log("train/loss", kNan) == Titles{});
  run.ticks(600);
  CHECK(run.log("train/loss", kNan) == reported);
}

TEST_CASE("alerts: clock jumps neither repeat nor delay an alert") {
  Watched run;
  run.ranks = {{.rank = 0, .alive = true}};
  CHECK(run.log("train/loss", kNan).size() == 1);
  CHECK(run.tick(86'400) == Titles{});  // a day ahead
  CHECK(run.log("train/loss", kNan) == Titles{});
  CHECK(run.tick(-1e9) == Titles{});  // and far back
  CHECK(run.log("train/loss", kNan) == Titles{});
  run.ticks(600);
  CHECK(run.log("train/loss", kNan).size() == 1);
}

TEST_CASE("alerts: a loss far above its running median") {
  Watched run;
  int64_t step = 0;
  for (int i = 0; i < 19; ++i) CHECK(run.log("train/loss", 2, ++step) == Titles{});
  CHECK(run.log("train/loss", 100, ++step) == Titles{});  // too few values
  CHECK(run.log("train/loss", 19.9, ++step) == Titles{});
  CHECK(run.log("train/loss", 21, 5) == Titles{"train/loss spiked"});  // an earlier step
  CHECK(run.last.text ==
        "train/loss is 21 at step 5 (rank 0), 10.5 times the median of its last values (2)");
  CHECK(run.last.step == 5);
  CHECK(run.log("train/loss", 22, ++step) == Titles{});  // reported already
}

TEST_CASE("alerts: the median follows the loss of each rank, and must be positive") {
  AlertConfig config;
  config.loss_spike = 3;
  Watched run(config);
  for (int i = 0; i < 1000; ++i) CHECK(run.log("train/loss", 1 + i * 0.01, i) == Titles{});
  CHECK(run.log("train/loss", 31, 1001) == Titles{});  // the last 100 are about 10.5
  for (int i = 0; i < 100; ++i) run.log("train/loss", 1, i, 1);
  CHECK(run.log("train/loss", 3.5, 100, 1) == Titles{"train/loss spiked"});

  Watched negative(config);
  for (int i = 0; i < 50; ++i) CHECK(negative.log("train/loss", -5, i) == Titles{});
  CHECK(negative.log("train/loss", 100) == Titles{});
  CHECK(negative.log("train/loss", kInfinity) == Titles{"train/loss is not a finite number"});

  config.loss_spike = 0;
  Watched off(config);
  for (int i = 0; i < 50; ++i) off.log("train/loss", 1, i);
  CHECK(off.log("train/loss", 1e9) == Titles{});
}

TEST_CASE("alerts: a rank that is alive but logs nothing") {
  AlertConfig config;
  config.stall = Duration{std::chrono::seconds(60)};
  Watched run(config);
  run.ranks = {{.rank = 0, .alive = true}, {.rank = 5, .alive = true}};
  for (int i = 0; i < 59; ++i) {
    CHECK(run.tick(1) == Titles{});
    run.log("train/loss", 1, i, 0);
    run.log("system/cpu_percent", 1, i, 5);  // the node's, not the rank's
  }
  CHECK(run.tick(1) == Titles{"Rank 5 has stalled"});
  CHECK(run.last.text == "Rank 5 is alive but has logged nothing for 60 s");
  CHECK_FALSE(run.last.step.has_value());
  CHECK(run.ticks(30) == Titles{});
  run.log("train/loss", 1, 1, 5);
  CHECK(run.ticks(28) == Titles{});
}

TEST_CASE("alerts: clock jumps and ended ranks are not stalls") {
  AlertConfig config;
  config.stall = Duration{std::chrono::seconds(60)};
  Watched run(config);
  run.ranks = {{.rank = 0, .alive = true}};
  CHECK(run.tick(1e6) == Titles{});  // counts as 30 s
  CHECK(run.tick(-1e6) == Titles{});
  CHECK(run.ticks(29) == Titles{});
  CHECK(run.tick(1) == Titles{"Rank 0 has stalled"});

  Watched ended(config);
  ended.ranks = {{.rank = 0, .alive = false, .ended = true},
                 {.rank = 1, .alive = true, .ended = true}};
  CHECK(ended.ticks(200) == Titles{});
  config.stall.reset();
  Watched off(config);
  off.ranks = {{.rank = 0, .alive = true}};
  CHECK(off.ticks(2000) == Titles{});
}

TEST_CASE("alerts: a rank that is slower than the others") {
  Watched run;
  run.ranks = {{.rank = 0, .alive = true}};  // the only one that logs
  for (int i = 0; i < 4; ++i) run.log_step_times(i, 2, 9, 0.1);
  CHECK(run.ticks(20) == Titles{});  // too few records
  run.log_step_times(4, 2, 0.14, 0.1);
  for (int i = 5; i < 10; ++i) run.log_step_times(i, 2, 0.16, 0.1);
  CHECK(run.ticks(9) == Titles{});
  CHECK(run.tick(1) == Titles{"Rank 2 is slow"});
  CHECK(run.last.text ==
        "Rank 2 takes 0.16 s per step, 1.6 times the median of the other ranks (0.1 s)");
  CHECK(run.ticks(20) == Titles{});

  Watched ended;
  ended.ranks = {{.rank = 0, .alive = false, .ended = true}};
  for (int i = 0; i < 5; ++i) ended.log_step_times(i, 1, 0.9, 0.1);
  CHECK(ended.ticks(20) == Titles{});

  Watched all;  // every rank logs the same records
  all.ranks = {{.rank = 0, .alive = true}, {.rank = 1, .alive = true}};
  for (int i = 0; i < 8; ++i) all.log_step_times(i / 2, 1, 0.2, 0.1, i % 2);
  CHECK(all.ticks(20) == Titles{});
  all.log_step_times(4, 1, 0.2, 0.1);
  CHECK(all.tick(1) == Titles{"Rank 1 is slow"});

  Watched wrong;  // a log that another program wrote
  wrong.ranks = run.ranks;
  for (const auto slowest : {kNan, -1.0, 1e300})
    for (int i = 0; i < 5; ++i) wrong.log_step_times(i, slowest, 0.9, 0.1);
  CHECK(wrong.ticks(20) == Titles{});

  AlertConfig config;
  config.slow_rank = 0;
  Watched off(config);
  off.ranks = run.ranks;
  for (int i = 0; i < 5; ++i) off.log_step_times(i, 1, 0.9, 0.1);
  CHECK(off.ticks(20) == Titles{});
}

TEST_CASE("alerts: short steps, and ranks that are slow alternately, do not count as slow") {
  Watched run;
  run.ranks = {{.rank = 0, .alive = true}};
  for (int i = 0; i < 20; ++i) run.log_step_times(i, 1, 0.004, 0.001);
  CHECK(run.ticks(60) == Titles{});
  for (int repeat = 0; repeat < 5; ++repeat)
    for (int rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 20; ++i) run.log_step_times(i, rank, 0.5, 0.1);
      CHECK(run.ticks(5) == Titles{});
    }
}

TEST_CASE("alerts: a process that takes over does not repeat alerts") {
  Watched run(with_condition("train/loss > 5"));
  CHECK(run.log("train/loss", 6) == Titles{"train/loss > 5"});
  CHECK(run.log("eval/loss", kNan) == Titles{"eval/loss is not a finite number"});
  for (int restart = 0; restart < 3; ++restart) {
    run.replace(4);
    CHECK(run.log("train/loss", 6) == Titles{});
    CHECK(run.log("eval/loss", -kNan) == Titles{});
  }
  CHECK(run.log("eval/accuracy", -kNan) == Titles{"eval/accuracy is not a finite number"});
  CHECK(run.last.text == "eval/accuracy is nan at step 1 (rank 0)");
  run.replace(3600);  // a resume
  CHECK(run.log("train/loss", 6) == Titles{"train/loss > 5"});
}

TEST_CASE("alerts: a rank that exits without recording an end") {
  Watched run;
  run.ranks = {{.rank = 0, .alive = true}, {.rank = 1, .alive = false, .ended = true}};
  CHECK(run.tick(1) == Titles{});
  run.ranks[0] = {.rank = 0, .alive = false, .note = "killed by the out-of-memory killer"};
  CHECK(run.tick(1) == Titles{"Rank 0 is lost"});
  CHECK(run.last.text ==
        "The process of rank 0 exited without reporting an outcome: killed by the out-of-memory "
        "killer");
  CHECK(run.ticks(1000) == Titles{});
  run.ranks[0].alive = true;  // started again
  CHECK(run.ticks(590) == Titles{});
  run.ranks[0].alive = false;
  CHECK(run.ticks(2) == Titles{});

  AlertConfig config;
  config.lost_rank = false;
  Watched off(config);
  off.ranks = {{.rank = 0}};
  CHECK(off.ticks(5) == Titles{});
}

TEST_CASE("alerts: a disk that is almost full, on each node") {
  Watched run;
  CHECK(run.log("system/disk.percent", 95) == Titles{});
  CHECK(run.log("train/accuracy", 0.5, 300) == Titles{});
  CHECK(run.log("system/disk.percent", 95.1, 4) == Titles{"The disk of rank 0 is almost full"});
  CHECK(run.last.text == "95.1 % of the disk of the run directory is used (limit: 95 %)");
  CHECK(run.last.step == 300);  // the last one of the run: samples have none
  CHECK(run.log("system/disk.percent", 96, 5) == Titles{});
  CHECK(run.log("system/disk.percent", 96, 5, 8) == Titles{"The disk of rank 8 is almost full"});
  AlertConfig off;
  off.disk_percent = 100;
  CHECK(Watched(off).log("system/disk.percent", 100.5) == Titles{});
}

TEST_CASE("alerts: user conditions ignore values before a step") {
  Watched run(with_condition("eval/accuracy < 0.5 after 1000 steps"));
  CHECK(run.log("eval/accuracy", 0.1, 999) == Titles{});
  CHECK(run.log("eval/accuracy", 0.6, 1000) == Titles{});
  CHECK(run.log("eval/accuracy", 0.4, 1500) == Titles{"eval/accuracy < 0.5 after 1000 steps"});
  CHECK(run.last.text ==
        "eval/accuracy is 0.4 at step 1500 (rank 0); condition: eval/accuracy < 0.5 after 1000 "
        "steps");
  CHECK(run.last.level == TextLevel::Warning);
  CHECK(run.log("eval/accuracy", 0.3, 2000) == Titles{});
  CHECK(run.log("eval/other", 0.3, 2000) == Titles{});
}

TEST_CASE("alerts: metrics of the machine count as of the last step") {
  Watched run(with_condition("system/load > 5 after 100 steps"));
  CHECK(run.log("system/load", 6, 0) == Titles{});
  run.log("train/loss", 1, 120);
  CHECK(run.log("system/load", 6, 1) == Titles{"system/load > 5 after 100 steps (rank 0)"});
  CHECK(run.last.step == 120);
}

TEST_CASE("alerts: user conditions count consecutive values per rank") {
  Watched run(with_condition("train/loss > 5 for 3 values"));
  CHECK(run.log("train/loss", 6, 1) == Titles{});
  CHECK(run.log("train/loss", 6, 2) == Titles{});
  CHECK(run.log("train/loss", 6, 2, 1) == Titles{});  // of another rank
  CHECK(run.log("train/loss", 5, 3) == Titles{});
  CHECK(run.log("train/loss", 6, 9) == Titles{});
  CHECK(run.log("train/loss", 6, 4) == Titles{});  // steps need not grow
  CHECK(run.log("train/loss", 6, 5) == Titles{"train/loss > 5 for 3 values"});
}

TEST_CASE("alerts: user conditions on node metrics are reported per node, others once") {
  Watched run(with_condition("system/gpu.*.temperature_celsius > 90"));
  CHECK(run.log("system/gpu.0.temperature_celsius", 91) ==
        Titles{"system/gpu.*.temperature_celsius > 90 (rank 0)"});
  CHECK(run.log("system/gpu.1.temperature_celsius", 95).size() == 1);
  CHECK(run.log("system/gpu.1.temperature_celsius", 95, 1, 8) ==
        Titles{"system/gpu.*.temperature_celsius > 90 (rank 8)"});
  CHECK(run.log("system/gpu.1.temperature_celsius", 96, 1, 8) == Titles{});

  Watched other(with_condition("train/loss > 5"));
  CHECK(other.log("train/loss", 6, 1, 0).size() == 1);
  CHECK(other.log("train/loss", 6, 1, 1) == Titles{});
}

TEST_CASE("alerts: the number of causes is bounded, and absent ones make room") {
  Watched run;
  size_t reported = 0;
  for (int i = 0; i < 5000; ++i) reported += run.log(fmt::format("train/{}", i), kNan).size();
  CHECK(reported == 1000);
  run.ticks(600);
  CHECK(run.log("train/4000", kNan).size() == 1);
}
