#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <sstream>

#include "tracking/config/tracking_config.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// The output of the console sink for a short run.
std::string shown(bool terminal, bool color, int columns = 200) {
  std::ostringstream out;
  const SinkContext context{
      .console = {.out = &out, .terminal = terminal, .color = color, .columns = columns}};
  const auto sink = sink_registry().find("console")->make()->build(context);
  sink->run_started({.id = "mnist-1",
                     .name = "mnist",
                     .job_id = "mnist-1",
                     .world_size = 2,
                     .created = 1000,
                     .planned = {.steps = 30, .epochs = 3}},
                    {});
  const std::array<Metric, 3> first = {
      {{"train/samples_per_s", 12345.6}, {"train/lr", 0.1}, {"train/loss", 2.5}}};
  sink->scalars({.step = 10, .time = 1010, .epoch = 1, .values = first});
  const std::array<Metric, 1> second = {{{"train/loss", 1.25}}};
  sink->scalars({.step = 20, .time = 1020, .epoch = 2, .values = second});
  const std::array<Metric, 2> evaluated = {{{"eval/accuracy", 0.9712}, {"eval/loss", 0.1}}};
  sink->scalars({.step = 20, .time = 1025, .epoch = 2, .values = evaluated});
  sink->text({.level = TextLevel::Debug, .line = "not shown"});
  sink->text({.level = TextLevel::Warning, .line = "careful"});
  sink->run_finished({.state = RunState::Failed, .exit_code = 75, .reason = "the disk is full"});
  return out.str();
}

}  // namespace

TEST_CASE("console: in a file, every line is plain text") {
  CHECK(shown(false, false) ==
        "run mnist-1 on 2 ranks\n"
        "epoch 1.00/3  step 10/30  loss 2.5000  lr 0.1  12,346 samples/s\n"
        "epoch 2.00/3  step 20/30  loss 1.2500  left 0:10\n"
        "eval  epoch 2.00  step 20  accuracy 0.9712  loss 0.1000\n"
        "warning: careful\n"
        "run mnist-1 failed in 0:25: the disk is full\n");
}

TEST_CASE(
    "console: on a terminal, progress is one line rewritten in place, and evaluations are "
    "permanent") {
  CHECK(shown(true, false) ==
        "run mnist-1 on 2 ranks\n"
        "\repoch 1.00/3  step 10/30  loss 2.5000  lr 0.1  12,346 samples/s\x1b[K"
        "\repoch 2.00/3  step 20/30  loss 1.2500  left 0:10\x1b[K"
        "\r\x1b[Keval  epoch 2.00  step 20  accuracy 0.9712  loss 0.1000\n"
        "warning: careful\n"
        "run mnist-1 failed in 0:25: the disk is full\n");
}

namespace {

// Steps of 10 ms and an evaluation after the last, as the console shows them in a file.
std::string shown_with_interval(std::string_view interval) {
  std::ostringstream out;
  auto part = sink_registry().find("console")->make();
  auto yaml = fmt::format("interval: {}", interval);
  part->read(parse_config(yaml, "test.yaml"), "sink");
  const auto sink = part->build({.console = {.out = &out}});
  for (int step = 1; step <= 250; ++step) {
    const std::array<Metric, 1> loss = {{{"train/loss", 1.0}}};
    sink->scalars({.step = step, .time = 1000 + 0.01 * step, .epoch = 1, .values = loss});
  }
  const std::array<Metric, 1> evaluated = {{{"eval/loss", 1.0}}};
  sink->scalars({.step = 250, .time = 1002.6, .epoch = 1, .values = evaluated});
  return out.str();
}

}  // namespace

TEST_CASE("console: progress is shown at most once per interval, and the last always") {
  CHECK(shown_with_interval("1 s") ==
        "epoch 1.00  step 1  loss 1.0000\n"
        "epoch 1.00  step 101  loss 1.0000\n"
        "epoch 1.00  step 201  loss 1.0000\n"
        "epoch 1.00  step 250  loss 1.0000\n"
        "eval  epoch 1.00  step 250  loss 1.0000\n");
  const auto all = shown_with_interval("1 ms");
  CHECK(std::ranges::count(all, '\n') == 251);
}

TEST_CASE("console: a progress line never wraps") {
  CHECK(shown(true, false, 20).find("\repoch 1.00/3  step \x1b[K") != std::string::npos);
}

TEST_CASE("console: color only if enabled") {
  CHECK(shown(true, true).find("\x1b[33mwarning\x1b[0m: careful") != std::string::npos);
  CHECK(shown(true, false).find("\x1b[3") == std::string::npos);
  CHECK(shown(false, false).find('\x1b') == std::string::npos);
}

TEST_CASE("sinks: an unknown or repeated name is a Config error that lists valid ones") {
  const auto read = [](const std::string& list) {
    TrackingConfig config;
    const auto root = parse_config("sinks: " + list + "\n", "run.yaml");
    read_fields(root, "tracking", config);
    return config.sinks.dump();
  };
  CHECK_THROWS_WITH(read("[consol]"),
                    Catch::StartsWith("run.yaml:1: tracking.sinks[0].name: unknown sink 'consol'; "
                                      "did you mean 'console'? valid: "));
  CHECK_THROWS_WITH(read("[console, {name: console}]"),
                    "run.yaml:1: tracking.sinks[1]: sink 'console' is listed twice");
  CHECK_THROWS_WITH(read("console"), Catch::Contains("expected a list such as [{name: ...}]"));
  CHECK(read("[]") == Json::array());
  CHECK(read("[console]") == Json::array({Json{{"name", "console"}, {"interval", "1 s"}}}));
}

TEST_CASE("sinks: every registered sink has a description") {
  for (const auto& entry : sink_registry().entries()) CHECK_FALSE(entry.help.empty());
  CHECK(sink_registry().find("console") != nullptr);
}
