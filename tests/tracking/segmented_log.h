// Event logs of several segments, and the records that a tail returns, a line for each.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/tracking/sample_log.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/log/log_tail.h"

namespace lockstep::tracking {

constexpr uint64_t kSmall = 1000;

inline uint32_t last_segment(const std::filesystem::path& log) {
  uint32_t last = 0;
  while (std::filesystem::exists(segment_path(log, last + 1))) ++last;
  return last;
}

// The records that a reader returns, a line for each.
struct RecordLines {
  std::vector<std::string>& lines;
  const std::vector<std::string>& keys;

  void operator()(const RunInfo& info) const {
    lines.push_back("process " + std::to_string(info.pid));
  }
  void operator()(const ConfigRecord& config) const {
    lines.push_back("config " + config.config.dump());
  }
  void operator()(const KeyRecord& key) const { lines.push_back("key " + key.name); }
  void operator()(const LoggedRow& row) const {
    std::string line = "row " + std::to_string(row.step);
    for (const auto& [key, value] : row.values)
      line += " " + keys.at(key) + "=" + std::to_string(value);
    lines.push_back(line);
  }
  void operator()(const TextLine& text) const { lines.push_back("text " + text.line); }
  void operator()(const RewindRecord& rewind) const {
    lines.push_back("rewind " + std::to_string(rewind.step));
  }
  void operator()(const SummaryRecord& summary) const {
    lines.push_back("summary " + summary.values.dump());
  }
  void operator()(const RunEnd&) const { lines.push_back("end"); }
  template <class Other>
  void operator()(const Other&) const {
    lines.push_back("other");
  }
};

inline std::vector<std::string> rest_of(LogTail& tail) {
  std::vector<std::string> lines;
  while (const auto record = tail.next()) std::visit(RecordLines{lines, tail.keys()}, *record);
  return lines;
}

inline std::vector<std::string> all_of(const std::filesystem::path& path) {
  LogTail tail(path);
  return rest_of(tail);
}

inline std::string row_line(const std::string& name, int64_t step, double value) {
  return "row " + std::to_string(step) + " " + name + "=" + std::to_string(value);
}

// One process of a run: steps first to last, a text every ten, a new name every seven, an end.
// Appends the expected records to `expected`.
inline void write_process(EventLogWriter& log, int64_t pid, int first, int last,
                          std::vector<std::string>& expected) {
  auto info = sample_info();
  info.pid = pid;
  info.created = 1.7e9 + static_cast<double>(pid);
  log.identity(info);
  log.config({{"pid", pid}});
  expected.push_back("process " + std::to_string(pid));
  expected.push_back("config {\"pid\":" + std::to_string(pid) + "}");
  for (int step = first; step <= last; ++step) {
    const auto name = "m/" + std::to_string(step / 7);
    const std::array<Metric, 1> values = {{{name, step * 0.5}}};
    if (std::ranges::find(expected, "key " + name) == expected.end())
      expected.push_back("key " + name);
    log.scalars({.step = step, .time = 1.7e9, .epoch = 0, .values = values});
    expected.push_back(row_line(name, step, step * 0.5));
    if (step % 10 != 0) continue;
    log.text({.line = "at " + std::to_string(step)});
    expected.push_back("text at " + std::to_string(step));
  }
  log.summary({{"last", last}});
  expected.push_back("summary {\"last\":" + std::to_string(last) + "}");
  log.end({.state = RunState::Finished});
  expected.push_back("end");
}

}  // namespace lockstep::tracking
