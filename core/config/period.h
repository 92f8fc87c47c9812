// Periods and durations in a run file: "10 steps", "1 epoch", "5 min". Singular or plural.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/config_value.h"

namespace lockstep {

// How often something happens during training.
struct Period {
  enum class Unit { Steps, Epochs, Seconds };

  int64_t count = 1;  // at least 1
  Unit unit = Unit::Epochs;

  std::string text() const;
  bool operator==(const Period&) const = default;
};

// A length of time: "250 ms", "30 s", "30 min", "2 h".
struct Duration {
  std::chrono::milliseconds value{0};

  std::string text() const;
  bool operator==(const Duration&) const = default;
};

// "30 s" or "0 s"; nullopt: not a duration.
std::optional<std::chrono::milliseconds> parse_time_span(const std::string& text);

template <>
struct ConfigValue<Period> {
  static Period read(const ConfigNode& node, const std::string& path);
  static Json dump(const Period& period) { return period.text(); }
  static Json schema();
};

template <>
struct ConfigValue<Duration> {
  static Duration read(const ConfigNode& node, const std::string& path);
  static Json dump(const Duration& duration) { return duration.text(); }
  static Json schema();
};

}  // namespace lockstep
