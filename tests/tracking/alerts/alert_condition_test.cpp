#include "tracking/alerts/alert_condition.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

using Comparison = AlertCondition::Comparison;

AlertCondition good(const std::string& text) {
  const auto parsed = parse_condition(text);
  if (const auto* mistake = std::get_if<ConditionError>(&parsed))
    throw std::runtime_error(text + ": expected " + mistake->expected);
  return std::get<AlertCondition>(parsed);
}

// "14: a number"
std::string mistake(const std::string& text) {
  const auto parsed = parse_condition(text);
  if (std::holds_alternative<AlertCondition>(parsed)) return "none";
  const auto& found = std::get<ConditionError>(parsed);
  return std::to_string(found.column) + ": " + found.expected;
}

}  // namespace

TEST_CASE("condition: what may be written") {
  const auto accuracy = good("eval/accuracy < 0.5 after 1000 steps");
  CHECK(accuracy.metric == "eval/accuracy");
  CHECK(accuracy.comparison == Comparison::Less);
  CHECK(accuracy.limit == 0.5);
  CHECK(accuracy.after_steps == 1000);
  CHECK(accuracy.for_values == 1);
  CHECK(accuracy.text == "eval/accuracy < 0.5 after 1000 steps");

  const auto loss = good("  train/loss>=-1e3\tfor 3 values  after 1 step ");
  CHECK(loss.metric == "train/loss");
  CHECK(loss.comparison == Comparison::GreaterOrEqual);
  CHECK(loss.limit == -1000);
  CHECK(loss.after_steps == 1);
  CHECK(loss.for_values == 3);

  CHECK(good("a<=1").comparison == Comparison::LessOrEqual);
  CHECK(good("a > 1").comparison == Comparison::Greater);
  CHECK(good("a == 1 for 1 value").comparison == Comparison::Equal);
  CHECK(good("a != 1").comparison == Comparison::NotEqual);
  CHECK(good("Verlust/\xc3\xa4 > 1").metric == "Verlust/\xc3\xa4");
}

TEST_CASE("condition: a mistake is told with its column and what is valid there") {
  CHECK(mistake("") == "1: a metric such as 'train/loss'");
  CHECK(mistake("   ") == "4: a metric such as 'train/loss'");
  CHECK(mistake("> 5") == "1: a metric such as 'train/loss'");
  CHECK(mistake("train/loss") == "11: one of < <= > >= == !=");
  CHECK(mistake("train/loss is 5") == "12: one of < <= > >= == !=");
  CHECK(mistake("train/loss = 5") == "12: one of < <= > >= == !=");
  CHECK(mistake("train/loss =< 5") == "12: one of < <= > >= == !=");
  CHECK(mistake("train/loss >") == "13: a number");
  CHECK(mistake("train/loss > five") == "14: a number");
  CHECK(mistake("train/loss > 5%") == "14: a number");
  CHECK(mistake("train/loss > nan") == "14: a number");
  CHECK(mistake("train/loss > inf") == "14: a number");
  CHECK(mistake("train/loss > 1e999") == "14: a number");
  CHECK(mistake("a > 5 for") == "10: a whole number of values, 1 to 1000000");
  CHECK(mistake("a > 5 for 0 values") == "11: a whole number of values, 1 to 1000000");
  CHECK(mistake("a > 5 for 3") == "12: 'values'");
  CHECK(mistake("a > 5 for 3 steps") == "13: 'values'");
  CHECK(mistake("a > 5 after 2.5 steps") == "13: a whole number of steps, 1 to 1000000000000");
  CHECK(mistake("a > 5 after -1 steps") == "13: a whole number of steps, 1 to 1000000000000");
  CHECK(mistake("a > 5 and b < 3") == "7: 'after N steps', 'for N values' or the end");
  CHECK(mistake("a > 5 afer 3 steps") ==
        "7: 'after N steps', 'for N values' or the end (did you mean 'after'?)");
  CHECK(mistake("a > 5 for 3 values for 3 values") == "20: 'after N steps', the end");
  CHECK(mistake("a > 5 after 3 steps for 3 values x") == "34: the end");
}

TEST_CASE("condition: comparisons, of which NaN satisfies none") {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto held = [&](const std::string& comparison) {
    std::string result;
    const auto condition = good("a " + comparison + " 5");
    for (const double value : {4.0, 5.0, 6.0, nan, infinity, -infinity})
      result += condition.holds(value) ? '1' : '0';
    return result;
  };
  CHECK(held("<") == "100001");
  CHECK(held("<=") == "110001");
  CHECK(held(">") == "001010");
  CHECK(held(">=") == "011010");
  CHECK(held("==") == "010000");
  CHECK(held("!=") == "101011");
}

TEST_CASE("condition: a star in the name of the metric") {
  const auto matches = [](const std::string& metric, std::string_view name) {
    return good(metric + " > 1").matches(name);
  };
  CHECK(matches("train/loss", "train/loss"));
  CHECK_FALSE(matches("train/loss", "train/loss2"));
  CHECK_FALSE(matches("train/loss", "train/los"));
  CHECK(matches("system/gpu.*.power_watts", "system/gpu.0.power_watts"));
  CHECK(matches("system/gpu.*.power_watts", "system/gpu.12.power_watts"));
  CHECK_FALSE(matches("system/gpu.*.power_watts", "system/gpu.0.power"));
  CHECK_FALSE(matches("system/*", "system/a/b"));
  CHECK(matches("*/loss", "eval/loss"));
  CHECK(matches("*/*", "eval/loss"));
  CHECK_FALSE(matches("*", "eval/loss"));
  CHECK(matches("a*b*c", "axbxbxc"));
  CHECK(matches("a**", "a"));
  CHECK_FALSE(matches("a*b", "a"));
  CHECK(matches(std::string(50, '*') + "b", std::string(500, 'a') + "b"));
}

TEST_CASE("condition: no text makes the parser fail in another way than with a mistake") {
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {"train/loss",
                                           " ",
                                           "\t",
                                           ">",
                                           "<=",
                                           "!",
                                           "=",
                                           "5",
                                           "-1e9",
                                           "after",
                                           "for",
                                           "3",
                                           "steps",
                                           "values",
                                           "1e",
                                           "*",
                                           "\xff",
                                           std::string(1, '\0'),
                                           "999999999999999999999",
                                           "nan"};
  int num_good = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    if (round % 4 != 0) text = "a > 5 ";
    for (auto left = random() % 8; left > 0; --left)
      text += (round % 2 != 0 ? " " : "") + pieces[random() % pieces.size()];
    if (round % 3 == 0 && !text.empty())
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto parsed = parse_condition(text);
    if (const auto* found = std::get_if<ConditionError>(&parsed)) {
      if (found->column < 1 || found->column > text.size() + 1 || found->expected.empty())
        FAIL("column " << found->column << " of '" << text << "'");
      continue;
    }
    ++num_good;
    const auto& condition = std::get<AlertCondition>(parsed);
    condition.matches(text);
    condition.holds(5);
    if (condition.metric.empty() || !std::isfinite(condition.limit) || condition.for_values < 1 ||
        condition.after_steps < 0)
      FAIL("accepted '" << text << "'");
  }
  CHECK(num_good > 1000);
}
