// The tracker, with which a trainer records a run. It writes the event log of this process, shows
// progress on the console, and starts the node's tracking agent, which feeds all other sinks from
// the event log.
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
Tracker open_tracker(const TrackerOptions&, const tracking::TrackingConfig&, const Forwarding&);
}  // namespace tracking

struct TrackerOptions {
  std::filesystem::path run_dir;  // of the job; created by create_run_directory()
  // The id and name of the job, the rank of this process, and the planned length of the run.
  RunInfo process;
  // The section `tracking` of a run file, as YAML: "{ranks: all, sinks: [console, csv]}". Empty:
  // defaults.
  std::string tracking;
  Json run_config;  // the configuration of the run, for display and comparison
  // Resumes after this step: records of later steps are replaced. Metrics of this step that are
  // already in the log are not recorded again.
  std::optional<int64_t> resume_step;
  ConsoleOptions console;
  std::filesystem::path agent_program;  // path of `lockstep`; empty: no tracking agent
  int local_world_size = 1;             // ranks on this node
  std::vector<int64_t> local_pids;      // process ids of these ranks, for system metrics
  int64_t launcher = 0;                 // process id of `lockstep launch`, or 0
};

struct TrackingReport {
  uint64_t num_dropped = 0;  // records missing from the event log
  std::string problem;       // what failed, in one line; empty: nothing
  // One line if the event log (on a rank that does not log: the run directory) was deleted or moved
  // during the run, so that commands cannot find the run. Otherwise empty.
  std::string lost;
};

// Records a run on behalf of one process.
//
// Thread: only the training thread.
// Errors: opening throws. Later failures do not affect training; finish() reports them.
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
  // Sets a summary value of the run, shown instead of the last logged value of that name.
  void summary(std::string_view name, double value) noexcept;

  // Record other kinds of values at `at.step`; the time is set by the tracker. Records larger than
  // 16 MiB are dropped and counted in TrackingReport::num_dropped.
  void histogram(Histogram histogram) noexcept;
  void image(Image image) noexcept;
  void clip(Clip clip) noexcept;  // of another type: dropped
  void table(Table table) noexcept;
  void alert(Alert alert) noexcept;
  void artifact(ArtifactUse artifact) noexcept;

  // Records the outcome for this process and closes the log; later calls have no effect. The
  // process that started the agent then waits for the sinks, at most `tracking.finish_timeout`; the
  // report lists the sinks that are not finished. If a tracker is destroyed without finish(), the
  // log has no end record.
  TrackingReport finish(const RunEnd& end) noexcept;

 private:
  friend Tracker tracking::open_tracker(const TrackerOptions&, const tracking::TrackingConfig&,
                                        const tracking::Forwarding&);
  struct State;
  explicit Tracker(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Creates the run directory and writes run.json and config.yaml. If it exists, the run is resumed:
// `created` is kept and a recorded outcome is removed. Call on the main rank, before any rank opens
// its tracker. Throws Environment if the directory cannot be written (read-only, full disk, ...);
// nothing is left of a new run then.
void create_run_directory(const std::filesystem::path& run_dir, const RunInfo& job,
                          const Json& config);

// Opens the tracker of this process. On logging ranks (`tracking.ranks`), it writes
// <run_dir>/events/rank-NNNNN.lsev. Local rank 0 always starts the node's agent. Not collective.
// Throws Config (invalid section `tracking`; thrown on every rank) or Environment (the log cannot
// be written, or another process is writing it).
Tracker open_tracker(const TrackerOptions& options);

}  // namespace lockstep
