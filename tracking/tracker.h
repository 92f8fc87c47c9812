// What the trainer holds to record a run: the event log of this process and the sinks beside it.
// Thread: the training thread only.
// Errors: opening throws; afterwards a failure of tracking never reaches the training. It is kept,
// and told once by finish().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/config_value.h"
#include "tracking/metric.h"
#include "tracking/run_end.h"
#include "tracking/run_info.h"
#include "tracking/sink.h"
#include "tracking/tracking_config.h"

namespace lockstep {

struct TrackerOptions {
  std::filesystem::path run_dir;  // of the job; must exist (create_run_directory)
  RunInfo process;  // as in decide(): the job's id and name, and the numbers of this rank
  TrackingConfig config;
  Json run_config;  // the resolved config of the whole run
  std::optional<int64_t>
      resume_step;  // continue after this step: what was logged later is replaced
  ConsoleOptions console;
  RunLength length;
};

struct TrackingReport {
  uint64_t num_dropped = 0;  // records that are in no event log
  std::string problem;       // one line for a person about what went wrong; empty when nothing did
};

class Tracker {
 public:
  // A tracker that records nothing: what ranks that do not log have.
  Tracker();
  ~Tracker();
  Tracker(Tracker&&) noexcept;
  Tracker& operator=(Tracker&&) noexcept;

  bool is_logging() const { return state_ != nullptr; }

  // Records `metrics` at `step` (optimizer updates so far) with the present time. Below a
  // microsecond for the log.
  void log(int64_t step, double epoch, std::span<const Metric> metrics) noexcept;
  void text(TextLevel level, std::string_view line) noexcept;
  // A value of the run as a whole; shown in place of the last logged value of the same name.
  void summary(std::string_view name, double value) noexcept;

  // Records the end and closes the log; later calls do nothing. Sinks that were not asked to finish
  // within `deadline` are left out, and named in the report. Does not write end.json: that is the
  // job's end, not this process's. A tracker that is destroyed without it leaves an entry without
  // an end ("lost" unless end.json says more).
  TrackingReport finish(const RunEnd& end,
                        std::chrono::milliseconds deadline = std::chrono::seconds(5)) noexcept;

 private:
  friend Tracker open_tracker(const TrackerOptions& options);
  struct State;
  explicit Tracker(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Decides whether this process logs, and if so opens <run_dir>/events/rank-NNNNN.lsev and starts
// the sinks. Throws Config (an unknown sink or placeholder, a rank that does not exist: on every
// rank alike) and Environment (the log cannot be written, or another process has it).
Tracker open_tracker(const TrackerOptions& options);

}  // namespace lockstep
