#include "core/config/period.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

namespace lockstep {
namespace {

constexpr int64_t kMaxCount = 1'000'000'000'000;
// 100 years: can be added to the current time in nanoseconds without overflow.
constexpr int64_t kMaxMilliseconds = 100 * 365 * int64_t{86'400'000};

struct TimeUnit {
  const char* name;
  int64_t milliseconds;
};
constexpr std::array<TimeUnit, 15> kTimeUnits = {{{"ms", 1},
                                                  {"s", 1'000},
                                                  {"sec", 1'000},
                                                  {"second", 1'000},
                                                  {"seconds", 1'000},
                                                  {"min", 60'000},
                                                  {"mins", 60'000},
                                                  {"minute", 60'000},
                                                  {"minutes", 60'000},
                                                  {"h", 3'600'000},
                                                  {"hour", 3'600'000},
                                                  {"hours", 3'600'000},
                                                  {"d", 86'400'000},
                                                  {"day", 86'400'000},
                                                  {"days", 86'400'000}}};

struct Span {
  int64_t count;
  std::string unit;
};

// "10 steps" or "10steps": an integer that is not negative, then a word.
std::optional<Span> parse_span(const std::string& text) {
  Span span{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), span.count);
  if (result.ec != std::errc{} || span.count < 0 || span.count > kMaxCount) return std::nullopt;
  auto unit = std::string(result.ptr, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' '));
  span.unit = unit;
  return span;
}

std::optional<int64_t> milliseconds_of(const Span& span) {
  for (const auto& unit : kTimeUnits)
    if (span.unit == unit.name && span.count <= kMaxMilliseconds / unit.milliseconds)
      return span.count * unit.milliseconds;
  return std::nullopt;
}

// The span in `node`. Throws Config for zero; nullopt: it is none.
std::optional<Span> read_span(const ConfigNode& node, const std::string& path) {
  if (node.kind != ConfigNode::Kind::Scalar) return std::nullopt;
  const auto span = parse_span(node.scalar);
  if (span && span->count == 0) throw bad_value(node, path, "more than 0");
  return span;
}

std::string time_text(int64_t milliseconds) {
  if (milliseconds % 3'600'000 == 0) return fmt::format("{} h", milliseconds / 3'600'000);
  if (milliseconds % 60'000 == 0) return fmt::format("{} min", milliseconds / 60'000);
  if (milliseconds % 1'000 == 0) return fmt::format("{} s", milliseconds / 1'000);
  return fmt::format("{} ms", milliseconds);
}

}  // namespace

std::string Period::text() const {
  switch (unit) {
    case Unit::Steps: return fmt::format("{} step{}", count, count == 1 ? "" : "s");
    case Unit::Epochs: return fmt::format("{} epoch{}", count, count == 1 ? "" : "s");
    case Unit::Seconds: return time_text(count * 1'000);
  }
  return {};
}

std::string Duration::text() const { return time_text(value.count()); }

std::optional<std::chrono::milliseconds> parse_time_span(const std::string& text) {
  const auto span = parse_span(text);
  const auto milliseconds = span ? milliseconds_of(*span) : std::nullopt;
  if (!milliseconds) return std::nullopt;
  return std::chrono::milliseconds(*milliseconds);
}

Period ConfigValue<Period>::read(const ConfigNode& node, const std::string& path) {
  constexpr auto kExpected = "a period such as '10 steps', '1 epoch' or '5 min'";
  const auto span = read_span(node, path);
  if (!span) throw bad_value(node, path, kExpected);
  if (span->unit == "step" || span->unit == "steps") return {span->count, Period::Unit::Steps};
  if (span->unit == "epoch" || span->unit == "epochs") return {span->count, Period::Unit::Epochs};
  const auto milliseconds = milliseconds_of(*span);
  if (!milliseconds || *milliseconds % 1'000 != 0) throw bad_value(node, path, kExpected);
  return {*milliseconds / 1'000, Period::Unit::Seconds};
}

Json ConfigValue<Period>::schema() {
  return {
      {"type", "string"},
      {"pattern", "^[0-9]+ ?(steps?|epochs?|s|sec|seconds?|min|mins|minutes?|h|hours?|d|days?)$"}};
}

Duration ConfigValue<Duration>::read(const ConfigNode& node, const std::string& path) {
  const auto span = read_span(node, path);
  const auto milliseconds = span ? milliseconds_of(*span) : std::nullopt;
  if (!milliseconds) throw bad_value(node, path, "a duration such as '30 s', '10 min' or '2 h'");
  return {std::chrono::milliseconds(*milliseconds)};
}

Json ConfigValue<Duration>::schema() {
  return {{"type", "string"},
          {"pattern", "^[0-9]+ ?(ms|s|sec|seconds?|min|mins|minutes?|h|hours?|d|days?)$"}};
}

}  // namespace lockstep
