#include "dashboard/filter/filter_predicate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "core/lower_case.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace lockstep::dashboard {
namespace {

std::optional<double> number_of(std::string_view text) {
  return parse_number<double>(text.substr(text.starts_with('+') ? 1 : 0));
}

// "7d", "12 h", in seconds.
std::optional<double> seconds_of(const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"s", 1},     {"sec", 1},     {"m", 60},       {"min", 60},  {"h", 3600},
      {"d", 86400}, {"day", 86400}, {"days", 86400}, {"w", 604800}};
  double count = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count, std::chars_format::fixed);
  if (parsed.ec != std::errc{}) return std::nullopt;
  auto unit = std::string(parsed.ptr, end);
  if (unit.starts_with(' ')) unit.erase(0, 1);
  for (const auto& [name, seconds] : kUnits)
    if (unit == name) return count * seconds;
  return std::nullopt;
}

// "2026-11-21", "2026-11-21 06:03", "2026-11-21T06:03:09Z", in unix seconds.
std::optional<double> date_of(const std::string& text) {
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
                             "%Y-%m-%dT%H:%M:%SZ"}) {
    std::tm time{};
    const auto* end = ::strptime(text.c_str(), format, &time);
    if (end && *end == '\0') return static_cast<double>(::timegm(&time));
  }
  return std::nullopt;
}

// '*' matches any characters. Time: at most the product of both sizes.
bool matches_glob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

template <class T>
bool compare_ordered(const T& a, std::string_view op, const T& b) {
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  return a >= b;
}

class FieldPredicate {
 public:
  explicit FieldPredicate(FieldComparison comparison)
      : c_(std::move(comparison)), lower_(lower_case(c_.text)) {
    if (!c_.is_quoted || c_.field.is_time() || c_.field.is_duration()) number_ = number_of(c_.text);
    if (c_.field.is_duration() && !number_) number_ = seconds_of(c_.text);
    if (c_.field.is_time() && !number_) {
      number_ = date_of(c_.text);
      if (const auto age = number_ ? std::nullopt : seconds_of(c_.text)) number_ = c_.now - *age;
    }
    const bool ordered = c_.op.starts_with('<') || c_.op.starts_with('>');
    const bool times = c_.field.is_time() || c_.field.is_duration();
    if (!number_ && times)
      throw std::invalid_argument(
          fmt::format("expected a {}, got '{}'",
                      c_.field.is_time() ? "time such as 2026-11-21, \"2026-11-21 06:03\" or 7d"
                                         : "duration such as 90, 2h or 3d",
                      printable(c_.text)));
    if (!number_ && ordered && !c_.is_quoted)
      throw std::invalid_argument(fmt::format("expected a number, got '{}'", printable(c_.text)));
  }

  bool operator()(const catalog::RunSummary& run, const catalog::NameTable& names) const {
    const bool negative = c_.op.starts_with('!');
    const auto values = c_.field.values(run, names, c_.now);
    const bool found =
        std::ranges::any_of(values, [&](const FieldContent& value) { return holds(value); });
    return negative ? !found : found;
  }

 private:
  bool holds(const FieldContent& value) const {
    if (c_.op == "~" || c_.op == "!~") return contains(value);
    if (const auto* number = std::get_if<double>(&value)) return number_ && compare(*number);
    if (const auto* yes = std::get_if<bool>(&value))
      return is_equality() && lower_ == (*yes ? "true" : "false");
    const auto& text = std::get<std::string>(value);
    if (c_.op == "==") return text == c_.text;
    if (is_equality()) return matches_glob(text, c_.text);
    return compare_ordered(text, c_.op, c_.text);
  }
  bool contains(const FieldContent& value) const {
    std::string text;
    if (const auto* number = std::get_if<double>(&value)) text = fmt::format("{}", *number);
    if (const auto* yes = std::get_if<bool>(&value)) text = *yes ? "true" : "false";
    if (const auto* string = std::get_if<std::string>(&value)) text = lower_case(*string);
    return text.find(lower_) != std::string::npos;
  }
  bool compare(double value) const {
    const auto other = *number_;
    if (is_equality()) return value == other || (std::isnan(value) && std::isnan(other));
    return compare_ordered(value, c_.op, other);
  }
  bool is_equality() const { return c_.op == "=" || c_.op == "==" || c_.op == "!="; }

  FieldComparison c_;
  std::string lower_;
  std::optional<double> number_;
};

}  // namespace

RunPredicate field_predicate(FieldComparison comparison) {
  return FieldPredicate(std::move(comparison));
}

RunPredicate text_predicate(std::string text) {
  return [pattern = lower_case(std::move(text))](const catalog::RunSummary& run,
                                                 const catalog::NameTable&) {
    const auto has = [&](const std::string& field) {
      return lower_case(field).find(pattern) != std::string::npos;
    };
    return has(run.id) || has(run.info.name) || has(run.info.group.value_or("")) ||
           has(run.info.host) || has(run.tags.note) || std::ranges::any_of(run.tags.tags, has);
  };
}

}  // namespace lockstep::dashboard
