// The records of a training run, as plain structs: shared by the tracker, the event log, the
// tracking agent and the sinks.
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

// One measured value. Names are paths such as "train/loss"; the first component selects the axis.
struct Metric {
  std::string_view name;
  double value = 0;  // may be NaN or infinite
};

// Clears the sign of a NaN, so that it prints as "nan"; returns other values unchanged.
inline double without_nan_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// Metrics of one step. A view: `values` and their names are only valid during the call.
struct ScalarRow {
  int64_t step = 0;  // optimizer updates so far; not necessarily increasing
  double time = 0;   // Unix time, seconds
  double epoch = 0;  // epochs so far, including a fraction
  std::span<const Metric> values;
};

// Means over the evaluation set, e.g. {"loss": 0.05, "accuracy": 0.99}; the same on all ranks.
using EvaluationResult = std::map<std::string, double>;

enum class TextLevel : uint8_t { Debug, Info, Warning, Error };

// "debug", "info", "warning", "error".
const char* level_name(TextLevel level);

// A message for the user.
struct TextLine {
  double time = 0;  // Unix time, seconds
  TextLevel level = TextLevel::Info;
  std::string line;
};

// A line that a rank wrote to its stdout or stderr.
struct ConsoleLine {
  double time = 0;  // Unix time, seconds
  int rank = 0;
  bool is_error = false;  // stderr
  std::string line;       // without the line break
};

// The name and time of a record.
struct Moment {
  std::string name;  // a path such as "weights/fc1"
  int64_t step = 0;  // optimizer updates so far
  double time = 0;   // Unix time, seconds
  double epoch = 0;  // epochs so far, including a fraction
};

// A distribution, e.g. of the weights of a layer.
struct Histogram {
  Moment at;
  std::vector<double> edges;   // n + 1, ascending
  std::vector<double> counts;  // n; counts[i]: number of values in [edges[i], edges[i + 1])
};

// An image, PNG-encoded.
struct Image {
  Moment at;
  int width = 0, height = 0;  // pixels
  std::string caption;        // may be empty
  std::string png;            // bytes of the file
};

// A sound, a video or an HTML page.
struct Clip {
  Moment at;
  std::string type;     // MIME type, one of "audio/wav", "audio/flac", "audio/ogg", "audio/mpeg",
                        // "audio/mp4", "video/mp4", "video/webm" and "text/html" (UTF-8)
  std::string caption;  // may be empty
  std::string bytes;    // of the file
};

// A table of values, e.g. a confusion matrix.
struct Table {
  Moment at;
  std::vector<std::string> columns;
  Json rows = Json::array();  // arrays with one value per column
};

// A condition that requires the user's attention.
struct Alert {
  double time = 0;  // Unix time, seconds
  TextLevel level = TextLevel::Warning;
  std::string title;  // one line; identical for alerts with the same cause
  std::string text;
  std::optional<int64_t> step;
};

// A version of an artifact that the run published or used. The files are in the artifact store,
// next to the run directories.
struct ArtifactUse {
  double time = 0;         // Unix time, seconds
  std::string name, type;  // "mnist-model", "model"
  int version = 0;
  std::string digest;  // SHA-256 of the content, hexadecimal
  std::vector<std::string> aliases;
  Json metadata = Json::object();
  bool made = true;  // false: used
};

}  // namespace lockstep
