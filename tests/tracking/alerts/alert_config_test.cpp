#include "tracking/alerts/alert_config.h"

#include <catch2/catch.hpp>

#include "core/config/config_text.h"
#include "tracking/alerts/alert_rules.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

AlertConfig read_alerts(const std::string& yaml) {
  AlertConfig config;
  read_fields(parse_config(yaml, "run.yaml"), "tracking.alerts", config);
  return config;
}

std::string error_of(const std::string& yaml) {
  try {
    verify_alerts(read_alerts(yaml));
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("alerts: reads the run file section") {
  const auto config = read_alerts(
      "nan: false\nloss_spike: 4\nstall: null\nslow_rank: 0\nlost_rank: false\ndisk_percent: 80\n"
      "repeat_after: 1 h\nconditions:\n  - train/loss > 5 for 3 values\n  - '*/loss < 0'\n");
  CHECK_FALSE(config.nan);
  CHECK(config.loss_spike == 4);
  CHECK_FALSE(config.stall.has_value());
  CHECK(config.slow_rank == 0);
  CHECK_FALSE(config.lost_rank);
  CHECK(config.disk_percent == 80);
  CHECK(config.repeat_after.text() == "1 h");
  REQUIRE(config.conditions.size() == 2);
  CHECK(config.conditions[0].for_values == 3);
  CHECK(config.conditions[1].metric == "*/loss");
}

TEST_CASE("alerts: dumped defaults read back unchanged") {
  auto config = read_alerts("{conditions: ['a > 1 after 5 steps']}");
  CHECK(config.nan);
  CHECK(config.stall->text() == "10 min");
  const auto yaml = to_yaml(ConfigDumper::dump(config));
  CHECK(to_yaml(ConfigDumper::dump(read_alerts(yaml))) == yaml);
  CHECK(yaml.find("a > 1 after 5 steps") != std::string::npos);
}

TEST_CASE("alerts: errors name the place and the valid values") {
  CHECK(error_of("conditions:\n  - a > 1\n  - train/loss => 5\n") ==
        "config: run.yaml:3: tracking.alerts.conditions[1]: column 12 of the condition: expected "
        "one of < <= > >= == !=, got '=> 5'");
  CHECK(error_of("conditions: ['a >']") ==
        "config: run.yaml:1: tracking.alerts.conditions[0]: column 4 of the condition: expected a "
        "number, got the end");
  CHECK(error_of("conditions: [[1]]").find("expected a condition such as") != std::string::npos);
  CHECK(error_of("loss_spike: 0.5") ==
        "config: tracking.alerts.loss_spike: expected a factor above 1, or 0 to disable, got 0.5");
  CHECK(error_of("slow_rank: 1") ==
        "config: tracking.alerts.slow_rank: expected a factor above 1, or 0 to disable, got 1");
  CHECK(error_of("disk_percent: 101").find("tracking.alerts.disk_percent") != std::string::npos);
  CHECK(error_of("stall: never").find("a duration such as") != std::string::npos);
  CHECK(error_of("stal: 5 min").find("did you mean 'stall'?") != std::string::npos);
}
