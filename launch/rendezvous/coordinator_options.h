// What a Coordinator works with, and what it takes over from a lost one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launch/protocol/job_state.h"
#include "launch/protocol/rendezvous_options.h"
#include "launch/rendezvous/moved_rendezvous.h"
#include "launch/workers/restart_policy.h"

namespace lockstep::launch {

struct CoordinatorOptions {
  RendezvousOptions rendezvous;
  RestartOptions restarts;
  std::string run_id;
  std::string host;  // of this node, in messages
  bool continues_on_loss = false;
  std::filesystem::path
      runs_dir;  // of the job's claims; empty: no node can replace the coordinator
  std::optional<MovedRendezvous> moved = {};  // with runs_dir
};

// The job that a new coordinator takes over.
struct Takeover {
  JobState job;            // the newest state that is known; job.coordinator is lost
  int node = 0;            // the number of this one
  std::string reason;      // why the last coordinator is lost
  bool is_silent = false;  // it may still run: no connection was closed
  std::optional<int> interrupted_by = {};  // a signal: the job ends when this node has claimed it
};

}  // namespace lockstep::launch
