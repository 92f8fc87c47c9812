// The event log of a node's agent: system metrics, heartbeats, alerts, console lines of its ranks.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tracking/agent/console_watch.h"
#include "tracking/log/event_log_writer.h"

namespace lockstep::tracking {

class NodeRecorder {
 public:
  // Creates or continues <run_dir>/events/node-NNNNN.lsev. Throws Environment.
  NodeRecorder(const std::filesystem::path& run_dir, int node_rank);

  // One row of system metrics; steps count the rows of the log.
  void sample(const std::vector<std::pair<std::string, double>>& values);
  void alert(const Alert& alert) { log_.alert(alert); }
  // Drops lines beyond 256 MiB per log; the files of the launcher have all of them.
  void console(const ConsoleLine& line);
  // The number of lines that the log had when it was opened.
  const ConsoleWatch::Counts& console_lines() const { return console_lines_; }
  void heartbeat();
  void close() { log_.close(); }

 private:
  EventLogWriter log_;
  int64_t num_samples_ = 0;
  uint64_t console_bytes_ = 0;
  ConsoleWatch::Counts console_lines_;
};

}  // namespace lockstep::tracking
