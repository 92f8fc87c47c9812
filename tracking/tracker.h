// What the trainer holds to record a run: the event log of this process, the console, and the
// node's tracking agent, which feeds everything else from the log. Thread: the training thread
// only. Errors: opening throws; afterwards a failure of tracking never reaches the training. It is
// kept, and told once by finish().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_value.h"
#include "tracking/agent/forwarding.h"
#include "tracking/config/tracking_config.h"
#include "tracking/log/metric.h"
#include "tracking/log/run_end.h"
#include "tracking/log/run_info.h"
#include "tracking/sinks/sink.h"

namespace lockstep {

struct TrackerOptions {
  std::filesystem::path run_dir;  // of the job; must exist (create_run_directory)
  RunInfo process;                // as in decide(): the job's id and name, the numbers of this
                                  // rank and how long the run is planned to be
  TrackingConfig config;
  Json run_config;  // the resolved config of the whole run
  // Continue after this step: what was logged later is replaced. Of the step itself a metric that
  // the log has already is not recorded again.
  std::optional<int64_t> resume_step;
  ConsoleOptions console;
  // Of the tracking agent (`lockstep track`); empty: none is started.
  std::filesystem::path agent_program;
  int local_world_size = 1;         // ranks on this node
  std::vector<int64_t> local_pids;  // their processes, whose use of the machine is recorded
  Forwarding forwarding;            // where nodes share no file system
  // Process that tells how the job ended when all ranks are gone (`lockstep launch`), or 0.
  int64_t launcher = 0;
};

struct TrackingReport {
  uint64_t num_dropped = 0;  // records that are in no event log
  std::string problem;       // one line for a person about what went wrong; empty when nothing did
  // That the event log (of a rank that does not log: the run directory) was deleted or moved during
  // the run, so that no command finds the run; one line. Empty while it is where it was.
  std::string lost;
};

class Tracker {
 public:
  // A tracker that records nothing.
  Tracker();
  ~Tracker();
  Tracker(Tracker&&) noexcept;
  Tracker& operator=(Tracker&&) noexcept;

  bool is_logging() const;

  // Records `metrics` at `step` (optimizer updates so far) with the present time. Below a
  // microsecond for the log.
  void log(int64_t step, double epoch, std::span<const Metric> metrics) noexcept;
  void text(TextLevel level, std::string_view line) noexcept;
  // A value of the run as a whole; shown in place of the last logged value of the same name.
  void summary(std::string_view name, double value) noexcept;

  // One value of another kind, at `at.step` (its time is set here). A record of more than 16 MiB is
  // dropped and counted.
  void histogram(Histogram histogram) noexcept;
  void image(Image image) noexcept;  // see tracking/sinks/png.h
  void table(Table table) noexcept;
  void alert(Alert alert) noexcept;
  void artifact(ArtifactUse artifact) noexcept;

  // Records the end and closes the log; later calls do nothing. The process that started the agent
  // then waits for the sinks, at most `tracking.finish_timeout`; the report names those that the
  // agent goes on with. Tells nothing of the job's end (tracking/runs/end_facts.h). A tracker that is
  // destroyed without it leaves an entry without an end.
  TrackingReport finish(const RunEnd& end) noexcept;

 private:
  friend Tracker open_tracker(const TrackerOptions& options);
  struct State;
  explicit Tracker(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Decides whether this process logs, and if so opens <run_dir>/events/rank-NNNNN.lsev and shows
// progress where it is this rank's to do; local rank 0 also starts the node's agent, whether it
// logs or not. Throws Config (an unknown sink or placeholder, a rank that does not exist: on every
// rank alike) and Environment (the log cannot be written, or another process has it).
Tracker open_tracker(const TrackerOptions& options);

}  // namespace lockstep
