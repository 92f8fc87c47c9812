// Runs one rank of a training job, from the run file to the result: the functionality of
// lockstep-trainer, for programs that embed Lockstep.
//
// Example:
//   int main_of_embedding(int argc, char** argv) {
//     const auto result = lockstep::run_session({.config_path = argv[1],
//                                                .overrides = {"train.epochs=3"},
//                                                .ranks = lockstep::read_rank_env(),
//                                                .command = {argv, argv + argc}});
//     std::printf("accuracy %.3f\n", result.evaluation.at("accuracy"));
//     return 0;
//   }
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rank_env.h"
#include "lockstep/record.h"
#include "lockstep/tracker.h"

namespace lockstep {

struct Batch;  // batch.h
class Hook;    // hook.h

// Why training stopped before its last step: early stopping, `lockstep runs stop`, or a signal.
enum class StopReason { EarlyStop, Requested, Preempted };

// A run that the program opened itself (tracker.h). Training records metrics and saves checkpoints
// there; the program records the outcome. Every process passes its own tracker for the same
// directory.
struct OwnRun {
  Tracker& tracker;
  std::filesystem::path run_dir;
};

struct SessionOptions {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;    // "a.b=value"
  std::optional<std::string> resume_id;  // the run to resume; it must have a checkpoint
  RankEnv ranks;                         // read_rank_env(), or set by the program
  std::vector<std::string> command;      // the command line, recorded with the run
  ConsoleOptions console;
  std::filesystem::path agent_program;       // path of `lockstep`; empty: no tracking agent
  std::vector<std::shared_ptr<Hook>> hooks;  // called after those of the run file
  // If not set, the session creates a run in run.dir and records its outcome.
  std::optional<OwnRun> own_run;
  // Whether SIGTERM, SIGINT and SIGUSR1 stop training at a step boundary, with a checkpoint.
  bool handle_signals = false;
};

struct SessionResult {
  std::string run_id;
  std::filesystem::path run_dir;
  EvaluationResult evaluation;             // of the last evaluation
  std::optional<StopReason> stopped = {};  // set if training stopped before the last step
  int signal = 0;                          // set with StopReason::Preempted
  std::string reason;                      // one line; set with `stopped`
  int rank = 0;      // of this process at the end; -1: the job ended without it, a spare
  std::string lost;  // one line; set if the event log was deleted or moved during the run
};

// Runs the session. Collective over all processes of the job. Validates everything that does not
// require other ranks, then connects to them, trains, and records the outcome. Throws Error; the
// run is then recorded as failed, unless the program opened it itself (own_run).
SessionResult run_session(const SessionOptions& options);

// Training step by step, for programs that have a main loop, such as simulations: the program passes
// batches, and everything else is as in a run of lockstep-trainer: averaged gradients, schedule,
// metrics, evaluations, checkpoints and resuming. See docs/howto/embed.md.
//
// All functions but the const ones are collective: each rank has a TrainingLoop, and calls them in
// the same order. They throw what run_session() throws; the run is then recorded as failed, and the loop
// has ended.
//
// The training runs in a separate thread; while a function of this class runs, the caller waits for
// it. Launcher and other ranks count the program's time between two steps as a part of the step
// (distributed.step_timeout).
//
// Thread: one at a time.
class TrainingLoop {
 public:
  // Starts or resumes the run of the run file, whose data.train is the dataset `program`. `example`:
  // a batch of any size, to verify the model before the ranks connect. Throws Config if another loop
  // of this process has not ended.
  TrainingLoop(const SessionOptions& options, const Batch& example);
  // Without finish(), the run is recorded as failed.
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // Whether the last step is done, or a stop was requested (`lockstep runs stop`, early stopping, a
  // signal).
  bool is_done() const;
  int64_t steps() const;        // done so far, including those before a resume
  int64_t total_steps() const;  // of the whole run

  // Trains one step, followed by what is due after it: metrics, evaluation, checkpoint. `batch` has
  // this rank's share of data.batch_size, times train.accumulate; batch.indices may be undefined.
  // Throws Config if the number of samples is another, or if the loop is done.
  void step(Batch batch);
  // This rank's loss of the last step, before it updated the weights; with train.accumulate, of the
  // last of its passes. Waits for the device. NaN before the first step of this process.
  double loss() const;

  // Evaluates on data.eval now. Empty if a stop request interrupted the evaluation.
  EvaluationResult evaluate();
  // Saves a checkpoint now. Throws Config before the first step.
  void save();

  // Ends the run, if it is not done: stopped early, with a checkpoint. Call it once, last.
  SessionResult finish();

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

// The command line of lockstep-trainer, for a program that registers parts:
//   int main(int argc, char** argv) { return lockstep::trainer_main(argc, argv); }
// Handles `PROGRAM CONFIG [a.b=value ...] [--resume ID]`, --inspect-data, --schema, --help and
// --version. Prints errors as one line on stderr. Returns the exit code (error.h). After a failed
// run it terminates the process without returning, because a regular shutdown could block on peers
// that have exited.
int trainer_main(int argc, char** argv);

}  // namespace lockstep
