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
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rank_env.h"
#include "lockstep/record.h"
#include "lockstep/tracker.h"

namespace lockstep {

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
  std::filesystem::path agent_program;  // path of `lockstep`; empty: no tracking agent
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

// The command line of lockstep-trainer, for a program that registers parts:
//   int main(int argc, char** argv) { return lockstep::trainer_main(argc, argv); }
// Handles `PROGRAM CONFIG [a.b=value ...] [--resume ID]`, --inspect-data, --schema, --help and
// --version. Prints errors as one line on stderr. Returns the exit code (error.h). After a failed
// run it terminates the process without returning, because a regular shutdown could block on peers
// that have exited.
int trainer_main(int argc, char** argv);

}  // namespace lockstep
