#include "formats/table/cell_value.h"

#include <array>
#include <chrono>
#include <string>

#include "core/number_text.h"
#include "core/trimmed.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxNumberLength = 400;
constexpr std::string_view kSpaces = " \t";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<double> plain_number(std::string_view text, char decimal) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::string with_point;
  if (decimal == ',') {
    if (text.find('.') != text.npos || text.size() > kMaxNumberLength) return std::nullopt;
    with_point = text;
    if (const auto comma = with_point.find(','); comma != with_point.npos) with_point[comma] = '.';
    text = with_point;
  }
  return parse_number<double>(text);
}

std::optional<double> truth_value(std::string_view text) {
  for (const auto* word : {"True", "true", "TRUE"})
    if (text == word) return 1;
  for (const auto* word : {"False", "false", "FALSE"})
    if (text == word) return 0;
  return std::nullopt;
}

// Parses dates and times. Each function consumes a prefix of the text; it returns false if the text
// does not start with the expected format.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  std::optional<double> read() {
    const auto whole = rest_;
    double seconds = 0;
    if (date(seconds)) {
      if (rest_.empty()) return seconds;
      if (!accept('T') && !accept(' ')) return std::nullopt;
      if (clock(seconds) && zone(seconds) && rest_.empty()) return seconds;
      return std::nullopt;
    }
    rest_ = whole;
    seconds = 0;
    if (days(seconds) && (rest_.empty() || clock(seconds)) && rest_.empty()) return seconds;
    rest_ = whole;
    seconds = 0;
    return clock(seconds) && rest_.empty() ? std::optional(seconds) : std::nullopt;
  }

 private:
  bool accept(char expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Reads `min_digits` to `max_digits` digits.
  bool digits(size_t min_digits, size_t max_digits, int& value) {
    size_t count = 0;
    value = 0;
    while (count < rest_.size() && count < max_digits && is_digit(rest_[count]))
      value = value * 10 + (rest_[count++] - '0');
    rest_.remove_prefix(count);
    return count >= min_digits;
  }

  // YYYY-MM-DD
  bool date(double& seconds) {
    using namespace std::chrono;
    int y = 0, m = 0, d = 0;
    if (!digits(4, 4, y) || !accept('-') || !digits(2, 2, m) || !accept('-') || !digits(2, 2, d))
      return false;
    const year_month_day day(year(y), month(static_cast<unsigned>(m)),
                             std::chrono::day(static_cast<unsigned>(d)));
    if (!day.ok()) return false;
    seconds = static_cast<double>(sys_days(day).time_since_epoch().count()) * 86400;
    return true;
  }

  // The days of a pandas duration, "2 days 03:04:05" or "-1 days +23:00:00"; the time remains.
  bool days(double& seconds) {
    const bool negative = accept('-');
    int count = 0;
    if (!digits(1, 8, count) || !rest_.starts_with(" day")) return false;
    rest_.remove_prefix(4);
    accept('s');
    seconds = (negative ? -86400.0 : 86400.0) * count;
    if (rest_.empty()) return true;
    if (!accept(' ')) return false;
    accept('+');
    return true;
  }

  // HH:MM, HH:MM:SS, HH:MM:SS.ffffff
  bool clock(double& seconds) {
    int h = 0, m = 0, s = 0;
    if (!digits(1, 2, h) || !accept(':') || !digits(2, 2, m) || h > 24 || m > 59) return false;
    double fraction = 0;
    if (accept(':')) {
      if (!digits(2, 2, s) || s > 60) return false;
      if (accept('.')) {
        if (rest_.empty() || !is_digit(rest_.front())) return false;
        double unit = 1;
        for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1), unit *= 10)
          fraction = fraction * 10 + (rest_.front() - '0');
        fraction /= unit;
      }
    }
    seconds += h * 3600 + m * 60 + s + fraction;
    return true;
  }

  // Empty, Z, +01:00, -0130
  bool zone(double& seconds) {
    if (rest_.empty() || accept('Z')) return true;
    const bool west = rest_.starts_with('-');
    if (!accept('+') && !accept('-')) return false;
    int h = 0, m = 0;
    if (!digits(2, 2, h)) return false;
    if (accept(':') || !rest_.empty())
      if (!digits(2, 2, m)) return false;
    seconds += (west ? 1 : -1) * (h * 3600 + m * 60);
    return true;
  }

  std::string_view rest_;
};

// 1,000  1.000,5  1'000  3,14
bool has_separators(std::string_view text) {
  size_t in_group = 0, groups = 0;
  bool of_three = true;
  for (const char c : text) {
    if (is_digit(c)) {
      ++in_group;
    } else if (std::string_view(",.' _").find(c) != std::string_view::npos && in_group > 0) {
      of_three = of_three && (groups == 0 ? in_group <= 3 : in_group == 3);
      ++groups;
      in_group = 0;
    } else {
      return false;
    }
  }
  return groups > 0 && in_group > 0 && (groups == 1 || of_three);
}

// 31.01.2026  1/31/2026  26-01-31, optionally followed by a time
bool is_other_date(std::string_view text) {
  std::array<size_t, 3> widths{};
  size_t group = 0, at = 0;
  char between = '\0';
  for (; at < text.size(); ++at) {
    if (is_digit(text[at])) {
      ++widths[group];
    } else if (group < 2 && std::string_view("-/.").find(text[at]) != std::string_view::npos &&
               (between == '\0' || between == text[at])) {
      between = text[at];
      ++group;
    } else {
      break;
    }
  }
  if (group != 2 || (at < text.size() && text[at] != ' ' && text[at] != 'T')) return false;
  const auto [a, b, c] = widths;
  const auto is_short = [](size_t width) { return width == 1 || width == 2; };
  return is_short(b) &&
         ((a == 4 && is_short(c)) || (is_short(a) && (c == 4 || (a == 2 && c == 2))));
}

// Why a text that looks like a number or a date is not accepted as one; empty for other texts.
const char* format_of(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  bool has_currency = false;
  for (const std::string_view sign : {"$", "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5"}) {
    const bool before = text.starts_with(sign), after = !before && text.ends_with(sign);
    if (before) text.remove_prefix(sign.size());
    if (after) text.remove_suffix(sign.size());
    has_currency = has_currency || before || after;
  }
  const bool per_cent = text.ends_with('%');
  if (per_cent) text.remove_suffix(1);
  text = trimmed(text, kSpaces);
  if (text.empty() || !is_digit(text.front())) return nullptr;
  const bool separated = has_separators(text);
  if (!has_currency && !per_cent && is_other_date(text))
    return "dates are written 2026-01-31 or 2026-01-31 12:00:00";
  if (!separated && !plain_number(text, '.')) return nullptr;
  if (per_cent) return "it has a percent sign";
  if (has_currency) return "it has a currency sign";
  return "it has a decimal comma (set decimal: \",\") or thousands separators";
}

}  // namespace

Cell read_cell(std::string_view text, char decimal) {
  text = trimmed(text, kSpaces);
  if (const auto number = plain_number(text, decimal)) return {CellKind::Number, *number};
  if (const auto truth = truth_value(text)) return {CellKind::Truth, *truth};
  if (const auto time = TimeReader(text).read()) return {CellKind::Time, *time};
  if (const auto* format = format_of(text)) return {CellKind::Formatted, 0, format};
  return {};
}

std::optional<double> cell_value(std::string_view text, char decimal) {
  text = trimmed(text, kSpaces);
  if (const auto number = plain_number(text, decimal)) return number;
  if (const auto truth = truth_value(text)) return truth;
  return TimeReader(text).read();
}

}  // namespace lockstep::formats
