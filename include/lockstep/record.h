// What a training run records, as plain values: shared by the tracker, the event log, the tracking
// agent and the sinks.
//
// Example:
//   void log_temperature(lockstep::Tracker& tracker, int64_t step, double celsius) {
//     const lockstep::Metric metric{"machine/temperature", celsius};
//     tracker.log(step, 0, {&metric, 1});
//   }
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep {

// One measured value. Names are paths such as "train/loss"; the first part says which axis the
// metric belongs to.
struct Metric {
  std::string_view name;
  double value = 0;  // NaN and infinities are values like any other
};

// A NaN without a sign, which would be printed; any other value as it is.
inline double without_nan_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// Metrics of one step. A view: `values` and their names are valid during the call only.
struct ScalarRow {
  int64_t step = 0;  // optimizer updates so far; need not grow from row to row
  double time = 0;   // unix seconds
  double epoch = 0;  // epochs so far, with the fraction
  std::span<const Metric> values;
};

// Means over the evaluation set, e.g. {"loss": 0.05, "accuracy": 0.99}; the same on all ranks.
using EvaluationResult = std::map<std::string, double>;

enum class TextLevel : uint8_t { Debug, Info, Warning, Error };

// "debug", "info", "warning", "error".
const char* level_name(TextLevel level);

// A message for the user.
struct TextLine {
  double time = 0;  // unix seconds
  TextLevel level = TextLevel::Info;
  std::string line;
};

// A line that a rank wrote to its stdout or stderr.
struct ConsoleLine {
  double time = 0;
  int rank = 0;
  bool is_error = false;  // stderr
  std::string line;       // without its line break
};

// The name and time of a value.
struct Moment {
  std::string name;  // a path such as "weights/fc1"
  int64_t step = 0;  // optimizer updates so far
  double time = 0;   // unix seconds
  double epoch = 0;  // epochs so far, with the fraction
};

// A distribution, such as that of the weights of a layer.
struct Histogram {
  Moment at;
  std::vector<double> edges;   // n + 1, ascending
  std::vector<double> counts;  // n; counts[i] values v with edges[i] <= v < edges[i + 1]
};

// A picture as a PNG file.
struct Image {
  Moment at;
  int width = 0, height = 0;  // pixels
  std::string caption;        // may be empty
  std::string png;            // the file's bytes
};

// Rows of values, such as a confusion matrix.
struct Table {
  Moment at;
  std::vector<std::string> columns;
  Json rows = Json::array();  // arrays of as many values as there are columns
};

// Something that a person should look at.
struct Alert {
  double time = 0;
  TextLevel level = TextLevel::Warning;
  std::string title;  // one line, the same for alerts of the same cause
  std::string text;
  std::optional<int64_t> step;
};

// A version of an artifact that the run made or used. Its files are in the artifact store beside
// the runs.
struct ArtifactUse {
  double time = 0;
  std::string name, type;  // "mnist-model", "model"
  int version = 0;
  std::string digest;  // of the content, hexadecimal SHA-256
  std::vector<std::string> aliases;
  Json metadata = Json::object();
  bool made = true;  // false: used
};

}  // namespace lockstep
