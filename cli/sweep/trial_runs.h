// The runs of one trial, one after another: a launcher per seed, and what they log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/index/column_spool.h"
#include "catalog/run_logs.h"
#include "core/system/child_process.h"
#include "launch/warm/warm_template.h"
#include "lockstep/run_info.h"
#include "sweep/sweep_directory.h"

namespace lockstep::cli {

// What a run has logged so far.
struct LoggedObjectives {
  std::vector<std::optional<double>> values;   // by objective, as Objective::value takes them
  std::vector<sweep::Evaluation> evaluations;  // of the first objective
  std::vector<std::string> metrics;            // names of all metrics, without system metrics
};

LoggedObjectives read_objectives(const catalog::RunLogs& logs, const catalog::NameTable& names,
                                 const std::vector<sweep::Objective>& objectives);

// Thread: one, see ChildProcess.
class TrialRuns {
 public:
  // Starts nothing yet. `lock`: of the trial, held as long as this exists. `launch`: options of
  // `lockstep launch`. The references must outlive this.
  TrialRuns(const sweep::SweepDirectory& sweep, sweep::Trial trial, FileDescriptor lock,
            catalog::NameTable& names, const std::vector<std::string>& launch);

  sweep::Trial& trial() { return trial_; }
  std::filesystem::path run_dir() const { return sweep_.runs() / run_id(); }
  bool is_first_run() const { return place_ == 0; }
  int slot() const { return slot_; }

  // Starts or continues the current run with `lockstep launch`, through `warm` unless it is null.
  // `slot`: among the trials at the same time. `gpus`: value of CUDA_VISIBLE_DEVICES; empty: as it is.
  void start(launch::WarmTemplate* warm, int slot, const std::string& gpus);
  // Selects the run of the next seed; false if there is none.
  bool advance();
  // Reads what the current run has logged.
  LoggedObjectives observe();
  std::optional<ProcessExit> poll_exit() const;
  // That of the launcher. 0: none.
  pid_t process() const { return child_ ? child_->pid() : 0; }
  // SIGTERM to the launcher, which ends the run with a checkpoint.
  void terminate() const;
  // Why the current run failed, in one line.
  std::string failure(const ProcessExit& exit);

 private:
  std::string run_id() const;
  // nullopt: it runs, or has not begun.
  std::optional<RunEnd> recorded_end() const;
  std::string last_line() const;

  const sweep::SweepDirectory& sweep_;
  sweep::Trial trial_;
  FileDescriptor lock_;
  catalog::NameTable& names_;
  const std::vector<std::string>& launch_;
  int64_t place_ = 0;  // of the current run
  int slot_ = 0;
  std::unique_ptr<catalog::ColumnSpool> spool_;
  std::unique_ptr<catalog::RunLogs> logs_;
  std::optional<ChildProcess> child_;
  std::optional<RunEnd> earlier_end_;  // of the current run, when its launcher was started
};

}  // namespace lockstep::cli
