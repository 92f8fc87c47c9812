// One process's part in one run, from run file to result: what lockstep-trainer does, and what a
// program that embeds Lockstep calls.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/environment/rank_env.h"
#include "trainer/loop/trainer.h"

namespace lockstep {

// A run that the program itself opened (tracking/tracker.h) and goes on with: training records into
// it and leaves its checkpoints there, and the program says how it ends. Every process has its part
// in it, of the same directory.
struct OwnRun {
  Tracker& tracker;
  std::filesystem::path run_dir;
};

struct SessionOptions {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;    // "a.b=value"
  std::optional<std::string> resume_id;  // continue this run; it must have a checkpoint
  RankEnv ranks;                     // read_rank_env() in a program; plain numbers in an embedding
  std::vector<std::string> command;  // what the user typed, for the record
  ConsoleOptions console;
  // The `lockstep` program, for the tracking agent; empty: none is started.
  std::filesystem::path agent_program;
  // None: the session makes a run of its own below run.dir, records it and ends it.
  std::optional<OwnRun> own_run;
  // SIGTERM, SIGINT and SIGUSR1 end the training at a step boundary, with a checkpoint.
  bool handle_signals = false;
  // Where this rank tells what it does; outlives the call. None: nobody watches.
  ProgressPage* progress = nullptr;
};

struct SessionResult {
  std::string run_id;
  std::filesystem::path run_dir;
  EvaluationResult evaluation;             // the last one
  std::optional<StopReason> stopped = {};  // before its last step
  int signal = 0;                          // when it was preempted
  std::string reason;                      // one line, when it did not come to its last step
  std::string lost;  // one line, when what it recorded is not where it was: no command finds it
};

// Collective over all processes of the job. Reads and checks everything that needs no other rank
// first, then meets the others, trains, and records how it ended. Throws Error; the run is marked
// failed then, unless it is the program's own.
SessionResult run_session(const SessionOptions& options);

}  // namespace lockstep
