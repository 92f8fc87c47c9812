#include "tracking/alerts/alert_condition.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/config/nearest_name.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace lockstep::tracking {
namespace {

constexpr std::string_view kConditionBlanks = " \t\r\n";
constexpr std::string_view kComparisonCharacters = "<>=!";
constexpr int64_t kMaxAlertSteps = 1'000'000'000'000, kMaxAlertValues = 1'000'000;

using Comparison = AlertCondition::Comparison;
constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {
    {{"<", Comparison::Less},
     {"<=", Comparison::LessOrEqual},
     {">", Comparison::Greater},
     {">=", Comparison::GreaterOrEqual},
     {"==", Comparison::Equal},
     {"!=", Comparison::NotEqual}}};

// Parses a condition from left to right. Each step returns false on an error.
class ConditionParser {
 public:
  explicit ConditionParser(std::string_view text) : text_(text) { condition_.text = text; }

  std::variant<AlertCondition, ConditionError> parse() {
    if (read_metric() && read_comparison() && read_limit() && read_clauses()) return condition_;
    return error_;
  }

 private:
  bool fail(size_t at, std::string expected) {
    error_ = {.column = at + 1, .expected = std::move(expected)};
    return false;
  }

  void skip_blanks() {
    at_ = std::min(text_.find_first_not_of(kConditionBlanks, at_), text_.size());
  }

  std::string_view read_until(std::string_view ends) {
    skip_blanks();
    begin_ = at_;
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    return text_.substr(begin_, at_ - begin_);
  }
  std::string_view read_word() { return read_until(kConditionBlanks); }

  bool read_metric() {
    condition_.metric = read_until(" \t\r\n<>=!");
    return !condition_.metric.empty() || fail(begin_, "a metric such as 'train/loss'");
  }

  bool read_comparison() {
    skip_blanks();
    begin_ = at_;
    at_ = std::min(text_.find_first_not_of(kComparisonCharacters, at_), text_.size());
    for (const auto& [name, comparison] : kComparisons) {
      condition_.comparison = comparison;
      if (text_.substr(begin_, at_ - begin_) == name) return true;
    }
    return fail(begin_, "one of < <= > >= == !=");
  }

  bool read_limit() {
    const auto limit = parse_number<double>(read_word());
    if (!limit || !std::isfinite(*limit)) return fail(begin_, "a number");
    condition_.limit = *limit;
    return true;
  }

  bool read_clauses() {
    bool after = false, values = false;
    for (auto word = read_word(); !word.empty(); word = read_word()) {
      if (word == "after" && !std::exchange(after, true)) {
        if (!read_count(condition_.after_steps, kMaxAlertSteps, "step")) return false;
      } else if (word == "for" && !std::exchange(values, true)) {
        if (!read_count(condition_.for_values, kMaxAlertValues, "value")) return false;
      } else {
        return fail(begin_, expected_clause(word, after, values));
      }
    }
    return true;
  }

  static std::string expected_clause(std::string_view word, bool after, bool values) {
    std::string expected = "the end";
    if (!values) expected = "'for N values' or " + expected;
    if (!after) expected = "'after N steps', " + expected;
    const auto meant = nearest_name(std::string(word.substr(0, 20)), {"after", "for"});
    const bool is_new = meant && !(*meant == "after" ? after : values);
    return is_new ? fmt::format("{} (did you mean '{}'?)", expected, *meant) : expected;
  }

  // "1000 steps"
  bool read_count(int64_t& count, int64_t max, std::string_view unit) {
    count = parse_number<int64_t>(read_word()).value_or(0);
    if (count < 1 || count > max)
      return fail(begin_, fmt::format("a whole number of {}s, 1 to {}", unit, max));
    const auto given = read_word();
    if (given == unit || given == fmt::format("{}s", unit)) return true;
    return fail(begin_, fmt::format("'{}s'", unit));
  }

  std::string_view text_;
  size_t at_ = 0, begin_ = 0;  // next character; start of the last word
  AlertCondition condition_;
  ConditionError error_;
};

}  // namespace

std::variant<AlertCondition, ConditionError> parse_condition(std::string_view text) {
  return ConditionParser(text).parse();
}

// Greedy matching that backtracks to the last '*'.
bool AlertCondition::matches(std::string_view name) const {
  size_t i = 0, j = 0, star = std::string::npos, retry = 0;
  while (i < name.size()) {
    if (j < metric.size() && metric[j] == '*') {
      star = j++;
      retry = i;
    } else if (j < metric.size() && metric[j] == name[i]) {
      ++i, ++j;
    } else if (star != std::string::npos && name[retry] != '/') {
      i = ++retry;
      j = star + 1;
    } else {
      return false;
    }
  }
  while (j < metric.size() && metric[j] == '*') ++j;
  return j == metric.size();
}

bool AlertCondition::holds(double value) const {
  if (std::isnan(value)) return false;
  switch (comparison) {
    case Comparison::Less: return value < limit;
    case Comparison::LessOrEqual: return value <= limit;
    case Comparison::Greater: return value > limit;
    case Comparison::GreaterOrEqual: return value >= limit;
    case Comparison::Equal: return value == limit;
    case Comparison::NotEqual: return value != limit;
  }
  return false;
}

}  // namespace lockstep::tracking

namespace lockstep {

tracking::AlertCondition ConfigValue<tracking::AlertCondition>::read(const ConfigNode& node,
                                                                     const std::string& path) {
  if (node.kind != ConfigNode::Kind::Scalar)
    throw bad_value(node, path, "a condition such as 'train/loss > 5 for 3 values'");
  const auto parsed = tracking::parse_condition(node.scalar);
  if (const auto* condition = std::get_if<tracking::AlertCondition>(&parsed)) return *condition;
  const auto& error = std::get<tracking::ConditionError>(parsed);
  const auto rest = std::string_view(node.scalar).substr(error.column - 1);
  throw config_error(fmt::format("{}: {}: column {} of the condition: expected {}, got {}",
                                 node.origin, path, error.column, error.expected,
                                 rest.empty() ? "the end" : "'" + printable(rest) + "'"));
}

}  // namespace lockstep
