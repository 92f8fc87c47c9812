// What a training run records, as plain values: the vocabulary that the tracker, the event log and
// the sinks share.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// One measured value. Names are paths such as "train/loss"; the first part says which axis the
// metric belongs to.
struct Metric {
  std::string_view name;
  double value = 0;  // NaN and infinities are values like any other
};

// Without the sign that a NaN may have, and that would be printed.
inline double without_nan_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// The metrics of one moment. A view: `values` and their names belong to the caller and live for the
// call.
struct ScalarRow {
  int64_t step = 0;  // optimizer updates so far; need not grow from row to row
  double time = 0;   // unix seconds
  double epoch = 0;  // epochs so far, with the fraction
  std::span<const Metric> values;
};

enum class TextLevel : uint8_t { Debug, Info, Warning, Error };

// "debug", "info", "warning", "error".
const char* level_name(TextLevel level);

}  // namespace lockstep
