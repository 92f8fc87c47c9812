#include "tracking/alerts/alert_condition.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

using Comparison = AlertCondition::Comparison;

AlertCondition parse_valid(const std::string& text) {
  const auto parsed = parse_condition(text);
  if (const auto* error = std::get_if<ConditionError>(&parsed))
    throw std::runtime_error(text + ": expected " + error->expected);
  return std::get<AlertCondition>(parsed);
}

// "14: a number"
std::string condition_error(const std::string& text) {
  const auto parsed = parse_condition(text);
  if (std::holds_alternative<AlertCondition>(parsed)) return "none";
  const auto& error = std::get<ConditionError>(parsed);
  return std::to_string(error.column) + ": " + error.expected;
}

}  // namespace

TEST_CASE("condition: valid syntax") {
  const auto accuracy = parse_valid("eval/accuracy < 0.5 after 1000 steps");
  CHECK(accuracy.metric == "eval/accuracy");
  CHECK(accuracy.comparison == Comparison::Less);
  CHECK(accuracy.limit == 0.5);
  CHECK(accuracy.after_steps == 1000);
  CHECK(accuracy.for_values == 1);
  CHECK(accuracy.text == "eval/accuracy < 0.5 after 1000 steps");

  const auto loss = parse_valid("  train/loss>=-1e3\tfor 3 values  after 1 step ");
  CHECK(loss.metric == "train/loss");
  CHECK(loss.comparison == Comparison::GreaterOrEqual);
  CHECK(loss.limit == -1000);
  CHECK(loss.after_steps == 1);
  CHECK(loss.for_values == 3);

  CHECK(parse_valid("a<=1").comparison == Comparison::LessOrEqual);
  CHECK(parse_valid("a > 1").comparison == Comparison::Greater);
  CHECK(parse_valid("a == 1 for 1 value").comparison == Comparison::Equal);
  CHECK(parse_valid("a != 1").comparison == Comparison::NotEqual);
  CHECK(parse_valid("loss/\xc3\xa4 > 1").metric == "loss/\xc3\xa4");
}

TEST_CASE("condition: errors report the column and what is valid there") {
  CHECK(condition_error("") == "1: a metric such as 'train/loss'");
  CHECK(condition_error("   ") == "4: a metric such as 'train/loss'");
  CHECK(condition_error("> 5") == "1: a metric such as 'train/loss'");
  CHECK(condition_error("train/loss") == "11: one of < <= > >= == !=");
  CHECK(condition_error("train/loss is 5") == "12: one of < <= > >= == !=");
  CHECK(condition_error("train/loss = 5") == "12: one of < <= > >= == !=");
  CHECK(condition_error("train/loss =< 5") == "12: one of < <= > >= == !=");
  CHECK(condition_error("train/loss >") == "13: a number");
  CHECK(condition_error("train/loss > five") == "14: a number");
  CHECK(condition_error("train/loss > 5%") == "14: a number");
  CHECK(condition_error("train/loss > nan") == "14: a number");
  CHECK(condition_error("train/loss > inf") == "14: a number");
  CHECK(condition_error("train/loss > 1e999") == "14: a number");
  CHECK(condition_error("a > 5 for") == "10: a whole number of values, 1 to 1000000");
  CHECK(condition_error("a > 5 for 0 values") == "11: a whole number of values, 1 to 1000000");
  CHECK(condition_error("a > 5 for 3") == "12: 'values'");
  CHECK(condition_error("a > 5 for 3 steps") == "13: 'values'");
  CHECK(condition_error("a > 5 after 2.5 steps") ==
        "13: a whole number of steps, 1 to 1000000000000");
  CHECK(condition_error("a > 5 after -1 steps") ==
        "13: a whole number of steps, 1 to 1000000000000");
  CHECK(condition_error("a > 5 and b < 3") == "7: 'after N steps', 'for N values' or the end");
  CHECK(condition_error("a > 5 afer 3 steps") ==
        "7: 'after N steps', 'for N values' or the end (did you mean 'after'?)");
  CHECK(condition_error("a > 5 for 3 values for 3 values") == "20: 'after N steps', the end");
  CHECK(condition_error("a > 5 after 3 steps for 3 values x") == "34: the end");
}

TEST_CASE("condition: comparisons, none of which holds for NaN") {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto results = [&](const std::string& comparison) {
    std::string result;
    const auto condition = parse_valid("a " + comparison + " 5");
    for (const double value : {4.0, 5.0, 6.0, nan, infinity, -infinity})
      result += condition.holds(value) ? '1' : '0';
    return result;
  };
  CHECK(results("<") == "100001");
  CHECK(results("<=") == "110001");
  CHECK(results(">") == "001010");
  CHECK(results(">=") == "011010");
  CHECK(results("==") == "010000");
  CHECK(results("!=") == "101011");
}

TEST_CASE("condition: wildcards in the metric name") {
  const auto matches = [](const std::string& metric, std::string_view name) {
    return parse_valid(metric + " > 1").matches(name);
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

TEST_CASE("condition: the parser returns a condition or an error for any text") {
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
  int num_valid = 0;
  for (int iteration = 0; iteration < 200'000; ++iteration) {
    std::string text;
    if (iteration % 4 != 0) text = "a > 5 ";
    for (auto left = random() % 8; left > 0; --left)
      text += (iteration % 2 != 0 ? " " : "") + pieces[random() % pieces.size()];
    if (iteration % 3 == 0 && !text.empty())
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto parsed = parse_condition(text);
    if (const auto* found = std::get_if<ConditionError>(&parsed)) {
      if (found->column < 1 || found->column > text.size() + 1 || found->expected.empty())
        FAIL("column " << found->column << " of '" << text << "'");
      continue;
    }
    ++num_valid;
    const auto& condition = std::get<AlertCondition>(parsed);
    condition.matches(text);
    condition.holds(5);
    if (condition.metric.empty() || !std::isfinite(condition.limit) || condition.for_values < 1 ||
        condition.after_steps < 0)
      FAIL("accepted '" << text << "'");
  }
  CHECK(num_valid > 1000);
}
