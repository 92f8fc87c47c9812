// The tracker: what a trainer holds to record a run. It writes the event log of this process, shows
// progress on the console, and starts the node's tracking agent, which feeds all other sinks from
// the log.
//
// Example:
//   void record_run(const std::filesystem::path& run_dir) {
//     const lockstep::RunInfo job{.id = "r1", .name = "demo", .job_id = run_dir.filename()};
//     lockstep::create_run_directory(run_dir, job, {{"lr", 0.1}});
//     auto tracker = lockstep::open_tracker({.run_dir = run_dir, .process = job});
//     for (int64_t step = 1; step <= 3; ++step) {
//       const lockstep::Metric loss{"train/loss", 1.0 / static_cast<double>(step)};
//       tracker.log(step, 0, {&loss, 1});
//     }
//     tracker.finish({.state = lockstep::RunState::Finished});
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/record.h"
#include "lockstep/run_info.h"
#include "lockstep/sink.h"

namespace lockstep {

class Tracker;
struct TrackerOptions;

namespace tracking {
struct TrackingConfig;
struct Forwarding;
Tracker open_tracker(const TrackerOptions&, const TrackingConfig&, const Forwarding&);
}  // namespace tracking

struct TrackerOptions {
  std::filesystem::path run_dir;  // of the job; it exists: create_run_directory()
  // The job's id and name, the ranks of this process and the planned length of the run.
  RunInfo process;
  // The section `tracking` of a run file, in YAML: "{ranks: all, sinks: [console, csv]}". Empty:
  // the defaults.
  std::string tracking;
  Json run_config;  // what the run was configured with, for display and comparison
  // Continues after this step: values logged later are replaced. Of the step itself, a metric that
  // is in the log already is not recorded again.
  std::optional<int64_t> resume_step;
  ConsoleOptions console;
  std::filesystem::path agent_program;  // the program `lockstep`; empty: no tracking agent
  int local_world_size = 1;             // ranks on this node
  std::vector<int64_t> local_pids;      // of their processes, for system metrics
  int64_t launcher = 0;                 // process id of `lockstep launch`, or 0
};

struct TrackingReport {
  uint64_t num_dropped = 0;  // records that are in no event log
  std::string problem;       // what went wrong, in one line; empty: nothing
  // One line when the event log (on a rank that does not log: the run directory) was deleted or
  // moved during the run, so that no command finds the run. Otherwise empty.
  std::string lost;
};

// Records one process's part in a run.
//
// Thread: one thread, the training thread.
// Errors: opening throws. Later failures never reach the training: they are kept and reported once,
// by finish().
class Tracker {
 public:
  // A tracker that records nothing.
  Tracker();
  ~Tracker();
  Tracker(Tracker&&) noexcept;
  Tracker& operator=(Tracker&&) noexcept;

  bool is_logging() const;

  // Records `metrics` at `step` (optimizer updates so far) with the current time. Takes less than a
  // microsecond per metric.
  void log(int64_t step, double epoch, std::span<const Metric> metrics) noexcept;
  void text(TextLevel level, std::string_view line) noexcept;
  // A value of the whole run, shown instead of the last logged value of that name.
  void summary(std::string_view name, double value) noexcept;

  // A value of another kind, at `at.step` (its time is set here). A record over 16 MiB is dropped
  // and counted.
  void histogram(Histogram histogram) noexcept;
  void image(Image image) noexcept;
  void table(Table table) noexcept;
  void alert(Alert alert) noexcept;
  void artifact(ArtifactUse artifact) noexcept;

  // Records the end of this process's part and closes the log; later calls do nothing. The process
  // that started the agent then waits for the sinks, at most `tracking.finish_timeout`; the report
  // names those that the agent still feeds. A tracker that is destroyed without finish() leaves an
  // entry without an end.
  TrackingReport finish(const RunEnd& end) noexcept;

 private:
  friend Tracker tracking::open_tracker(const TrackerOptions&, const TrackingConfig&,
                                        const Forwarding&);
  struct State;
  explicit Tracker(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Makes the directory of a run and writes run.json and config.yaml. In an existing one the run
// continues: `created` stays, and a recorded end is removed. Called on the main rank, before any
// rank opens its tracker. Throws Environment when it cannot be written (read-only, full disk, ...);
// nothing of a new run is left then.
void create_run_directory(const std::filesystem::path& run_dir, const RunInfo& job,
                          const Json& config);

// Opens the tracker of this process. If it logs (`tracking.ranks`), it writes
// <run_dir>/events/rank-NNNNN.lsev. Local rank 0 also starts the node's agent, whether it logs or
// not. Not collective. Throws Config (an invalid section `tracking`, on every rank alike) and
// Environment (the log cannot be written, or another process writes it).
Tracker open_tracker(const TrackerOptions& options);

}  // namespace lockstep
