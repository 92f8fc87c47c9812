// One process's part in one run, from the run file to the result: what lockstep-trainer does, for
// programs that embed Lockstep.
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

class ProgressPage;

// Why a training ended before its last step: early stopping, `lockstep runs stop`, or a signal.
enum class StopReason { EarlyStop, Requested, Preempted };

// A run that the program opened itself (tracker.h): the training records its metrics and saves its
// checkpoints there, and the program records how it ended. Every process passes its own tracker of
// the same directory.
struct OwnRun {
  Tracker& tracker;
  std::filesystem::path run_dir;
};

struct SessionOptions {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;    // "a.b=value"
  std::optional<std::string> resume_id;  // the run to continue; it must have a checkpoint
  RankEnv ranks;                         // read_rank_env(), or set by the program
  std::vector<std::string> command;      // the command line, for the record
  ConsoleOptions console;
  std::filesystem::path agent_program;  // the program `lockstep`; empty: no tracking agent
  // Without it, the session creates a run below run.dir, records it and ends it.
  std::optional<OwnRun> own_run;
  // SIGTERM, SIGINT and SIGUSR1 end the training at a step boundary, with a checkpoint.
  bool handle_signals = false;
  // Where this rank reports its progress to a launcher; outlives the call.
  ProgressPage* progress = nullptr;
};

struct SessionResult {
  std::string run_id;
  std::filesystem::path run_dir;
  EvaluationResult evaluation;             // the last one
  std::optional<StopReason> stopped = {};  // before the last step
  int signal = 0;                          // with StopReason::Preempted
  std::string reason;                      // one line, with `stopped`
  std::string lost;  // one line, when the event log was deleted or moved during the run
};

// Collective over all processes of the job. Reads and checks everything that needs no other rank,
// then meets the others, trains, and records how the run ended. Throws Error; the run is recorded
// as failed then, unless it is the program's own.
SessionResult run_session(const SessionOptions& options);

// The command line of lockstep-trainer, for a program that registers parts:
//   int main(int argc, char** argv) { return lockstep::trainer_main(argc, argv); }
// Runs `PROGRAM CONFIG [a.b=value ...] [--resume ID]`, --inspect-data, --schema, --help or
// --version. Prints an error as one line on stderr. Returns the exit code (error.h). After a failed
// run it exits the process itself: an orderly shutdown could wait for peers that are gone.
int trainer_main(int argc, char** argv);

}  // namespace lockstep
