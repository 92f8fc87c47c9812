#include "core/config/period.h"

#include <catch2/catch.hpp>

#include "tests/core/matches.h"
#include "tests/data/error_of.h"

using namespace lockstep;

namespace {

ConfigNode scalar(const std::string& text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::Scalar;
  node.scalar = text;
  node.origin = "run.yaml:3";
  return node;
}

Period period(const std::string& text) {
  return ConfigValue<Period>::read(scalar(text), "eval.every");
}
std::chrono::milliseconds duration(const std::string& text) {
  return ConfigValue<Duration>::read(scalar(text), "timeout").value;
}

}  // namespace

TEST_CASE("period: steps, epochs and times, singular or plural") {
  CHECK(period("10 steps") == Period{10, Period::Unit::Steps});
  CHECK(period("1 step") == Period{1, Period::Unit::Steps});
  CHECK(period("1 epoch") == Period{1, Period::Unit::Epochs});
  CHECK(period("2epochs") == Period{2, Period::Unit::Epochs});
  CHECK(period("5 min") == Period{300, Period::Unit::Seconds});
  CHECK(period("2 hours") == Period{7200, Period::Unit::Seconds});
  CHECK(period("3000 ms") == Period{3, Period::Unit::Seconds});
}

TEST_CASE("period: its text is read back unchanged") {
  for (const std::string text :
       {"1 step", "7 steps", "1 epoch", "12 epochs", "1 s", "90 s", "5 min", "36 h"})
    CHECK(period(text).text() == text);
  CHECK(period("1 d").text() == "24 h");
  CHECK(period("120 s").text() == "2 min");
}

TEST_CASE("period: other text is an error that shows the format") {
  for (const std::string text :
       {"", " ", "10", "steps", "-1 steps", "+1 steps", "1.5 epochs", "10 stepz", "1 step 2",
        "1 Step", "1e3 steps", "500 ms", "9999999999999 steps", "99999999999999999999 steps",
        "40000 d", "1\tstep"}) {
    INFO(text);
    CHECK(error_of([&] { period(text); })
              .starts_with("config: run.yaml:3: eval.every: expected a period such as '10 steps', "
                           "'1 epoch' or "
                           "'5 min', got '"));
  }
}

TEST_CASE("duration: units from milliseconds to days") {
  using namespace std::chrono_literals;
  CHECK(duration("250 ms") == 250ms);
  CHECK(duration("30 s") == 30s);
  CHECK(duration("30min") == 30min);
  CHECK(duration("2 h") == 2h);
  CHECK(duration("1 day") == 24h);
  CHECK(Duration{1500ms}.text() == "1500 ms");
  CHECK(Duration{90min}.text() == "90 min");
}

TEST_CASE("duration: zero is an error of a run file, but not of parse_time_span()") {
  using namespace std::chrono_literals;
  for (const std::string text : {"0 s", "0s", "0 min"}) {
    CHECK(error_of([&] { duration(text); }) ==
          "config: run.yaml:3: timeout: expected more than 0, got '" + text + "'");
    CHECK(parse_time_span(text) == 0ms);
  }
  CHECK(error_of([] { period("0 steps"); }).ends_with(": expected more than 0, got '0 steps'"));
  CHECK(parse_time_span("250 ms") == 250ms);
  for (const std::string text : {"-1 s", "0", "0 fortnights", ""})
    CHECK_FALSE(parse_time_span(text));
}

TEST_CASE("duration: steps, units and centuries are errors") {
  for (const std::string text :
       {"10 steps", "30", "-1 s", "1000000000000 d", "36501 d", "1 fortnight"}) {
    INFO(text);
    CHECK(error_of([&] { duration(text); }) ==
          "config: run.yaml:3: timeout: expected a duration such as '30 s', "
          "'10 min' or '2 h', got '" +
              text + "'");
  }
  // The longest one can still be added to the current time.
  const auto longest = std::chrono::duration_cast<std::chrono::nanoseconds>(duration("36500 d"));
  CHECK(std::chrono::system_clock::now() + longest > std::chrono::system_clock::now());
}

TEST_CASE("period: the schema's pattern accepts what is dumped") {
  const auto periods = ConfigValue<Period>::schema()["pattern"].get<std::string>();
  const auto durations = ConfigValue<Duration>::schema()["pattern"].get<std::string>();
  for (const std::string text : {"1 step", "2 steps", "1 epoch", "5 min", "2 h", "30 s"})
    CHECK(matches(ConfigValue<Period>::dump(period(text)).get<std::string>(), periods));
  for (const std::string text : {"250 ms", "30 s", "2 h"})
    CHECK(matches(ConfigValue<Duration>::dump({duration(text)}).get<std::string>(), durations));
  CHECK_FALSE(matches("10", periods));
}
