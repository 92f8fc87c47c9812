// What a run records besides scalars, as plain values: the vocabulary that the tracker, the event
// log, the tracking agent and the sinks share. Scalars are in metric.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_value.h"
#include "tracking/log/metric.h"

namespace lockstep {

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

// Where a value belongs: under which name, and when.
struct Moment {
  std::string name;  // a path such as "weights/fc1"
  int64_t step = 0;  // optimizer updates so far
  double time = 0;   // unix seconds
  double epoch = 0;  // epochs so far, with the fraction
};

struct Histogram {
  Moment at;
  std::vector<double> edges;   // n + 1, ascending
  std::vector<double> counts;  // n; counts[i] values v with edges[i] <= v < edges[i + 1]
};

struct Image {
  Moment at;
  int width = 0, height = 0;  // pixels
  std::string caption;        // may be empty
  std::string png;            // the file's bytes
};

struct Table {
  Moment at;
  std::vector<std::string> columns;
  Json rows = Json::array();  // arrays of as many values as there are columns
};

struct Alert {
  double time = 0;
  TextLevel level = TextLevel::Warning;
  std::string title;  // one line, the same for alerts of the same cause
  std::string text;
  std::optional<int64_t> step;
};

// A version of an artifact that the run made or used. Its files are in the store beside the runs
// (tracking/artifacts/store.h).
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
