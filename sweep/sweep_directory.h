// The files of a sweep, <run.dir>/.sweeps/<name>/:
//   sweep.json         {"id", "created", "ranks", "sweep": the sweep file}
//   run.yaml           the run file of the trials, resolved
//   trials/00012.json  one per trial (sweep/trial.h), replaced atomically
//   logs/00012.log     what the ranks of a trial printed
//   controller.lock    locked by the process that runs trials, or shared by several
//   running/00012      locked by the process that runs the trial
//   changes.lock       locked while a trial is added or its result is stored
//   stop_request       a request to the controller to stop
// All state is derived from these files and from the runs, so that a killed sweep continues.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/file_lock.h"
#include "sweep/trial.h"

namespace lockstep::sweep {

// <runs>/.sweeps
std::filesystem::path sweeps_path(const std::filesystem::path& runs);
// In alphabetical order.
std::vector<std::string> sweep_names(const std::filesystem::path& runs);

struct SweepInfo {
  std::string id;  // unique; run ids begin with it
  double created = 0;
  int ranks = 1;  // of a trial, on all of its nodes
  SweepFile file;
};

// Thread: any; several processes may use a sweep.
class SweepDirectory {
 public:
  // Throws Config if it is not the directory of a sweep.
  explicit SweepDirectory(std::filesystem::path path);

  // Opens the sweep, or creates it. `run`: the resolved run file. Only the budget may differ from
  // that of an existing sweep with trials: Config otherwise, which names the setting.
  static SweepDirectory open_or_create(const std::filesystem::path& path, const SweepInfo& info,
                                       const Json& run);

  const std::filesystem::path& path() const { return path_; }
  const SweepInfo& info() const { return info_; }
  const SweepFile& file() const { return info_.file; }
  std::filesystem::path run_file() const { return path_ / "run.yaml"; }
  std::filesystem::path runs() const { return path_.parent_path().parent_path(); }
  std::filesystem::path log_of(const Trial& trial) const;

  // Ascending by number. Throws Config for a corrupt file.
  std::vector<Trial> trials() const;
  std::optional<Trial> find(int64_t number) const;
  // Creates the next trial, of the search or with the given point. nullopt if the search has no more
  // points, or if is_complete() and the search chooses it.
  std::optional<Trial> add(TrialSource by, const std::optional<Point>& point = std::nullopt) const;
  // The next trial for a caller of `lockstep sweep ask`: one that was added by hand or released, and
  // that no process runs, else a new one. nullopt as of add().
  std::optional<Trial> hand_out() const;
  // Stores a finished trial, whose point it verifies, under the next number.
  Trial add_finished(Trial trial) const;
  // Whether the first objective of a trial is as good as budget.target.
  bool has_reached_target(const std::vector<Trial>& trials) const;
  // Whether the target is reached, or the trials that the budget or the grid allows exist; those of
  // imported runs do not count.
  bool is_complete(const std::vector<Trial>& trials) const;
  // Replaces the file of the trial.
  void write(const Trial& trial) const;
  void remove(const Trial& trial) const;

  // Held until the descriptor is closed. Throws Config if another process runs the sweep;
  // `is_shared`: if another one does not share it. The first one clears a request to stop.
  FileDescriptor lock_controller(bool is_shared) const;
  bool is_controlled() const;
  // Held until the descriptor is closed, while a process runs the trial. Not open if another process
  // holds it.
  FileDescriptor lock_trial(int64_t number) const;
  // While it is held, no other process stores a result. Throws Environment after 2 min.
  FileLock lock_changes() const;

  void request_stop() const;
  // When the last request was made; nullopt: there is none.
  std::optional<std::filesystem::file_time_type> stop_requested() const;

 private:
  std::filesystem::path trial_path(int64_t number) const;

  std::filesystem::path path_;
  SweepInfo info_;
};

}  // namespace lockstep::sweep
