// Runs the trials of a sweep until its budget is used up.
#pragma once

#include <chrono>
#include <csignal>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep/trial_runs.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"
#include "sweep/sweep_directory.h"

namespace lockstep::cli {

struct SweepOptions {
  int parallel = 1;     // trials at the same time
  bool joins = false;   // other processes may run trials of the sweep, too
  bool is_warm = true;  // trials are forked from a process that has loaded LibTorch
  bool json = false;
  std::vector<std::string> launch;  // the options of `lockstep launch` for each trial
  std::vector<std::string> gpus;    // of this host, which trials at the same time divide
};

// Everything that it decides is a function of the files of the sweep and of what the runs logged:
// after a kill at any moment, the next one continues with the same trials (with one trial at a time;
// with several, the trials that a point depends on are those that had ended then).
class SweepController {
 public:
  // Throws Config if another process runs the sweep and does not share it. Prints one line per trial to `out`.
  SweepController(const sweep::SweepDirectory& sweep, const SweepOptions& options,
                  std::ostream& out);

  // Returns the exit code. Throws Config if no trial logs an objective, and Config or Environment
  // after too many failures in a row, or if all trials failed.
  int run();

 private:
  using Running = std::unique_ptr<TrialRuns>;

  void fill();
  int free_slot() const;
  void start(TrialRuns& trial, int slot);
  Running next_trial();
  Running take(int64_t number);
  bool is_used_up(const std::vector<sweep::Trial>& trials) const;
  void wait();
  std::vector<pid_t> processes() const;
  void stop_all();
  // Whether the trial continues.
  bool update(TrialRuns& running);
  bool is_objective_missing(const LoggedObjectives& logged, bool has_ended);
  void prune_if_due(TrialRuns& running, const LoggedObjectives& logged);
  bool end_run(TrialRuns& running, const LoggedObjectives& logged, const ProcessExit& exit);
  void end_trial(TrialRuns& running, sweep::TrialState state);
  void report(const sweep::Trial& trial);
  Error failure(const std::string& what) const;
  bool has_no_result() const;
  int finish();

  const sweep::SweepDirectory& sweep_;
  SweepOptions options_;
  std::ostream& out_;
  FileDescriptor lock_;
  // To other processes, which are still stopping.
  const std::optional<std::filesystem::file_time_type> earlier_request_;
  launch::SignalWatch signals_;
  catalog::NameTable names_;
  std::optional<launch::WarmTemplate> warm_;  // since the first start
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<Running> running_;
  bool is_objective_known_ = false;  // some trial logged all of them
  bool is_stopping_ = false;
  std::optional<int> signal_;
  std::optional<Error> problem_;  // thrown when all trials have ended
  int64_t failures_ = 0;          // in a row
  std::string last_failure_;
  bool is_input_wrong_ = true;  // all failures of this command said so
};

}  // namespace lockstep::cli
