// The state of one rank at one moment: its progress page, and the state of its process from the
// kernel. Sent between the launchers of a job.
#pragma once

#include <optional>
#include <string>

#include "core/system/progress_page.h"

namespace lockstep::launch {

struct RankView {
  ProgressSnapshot progress;
  std::string host;
  char process_state = '?';  // as in /proc/<pid>/stat: R, S, D, T (stopped), Z
  std::string bucket;        // parameters of the oldest pending bucket; empty: none
  std::string stacks;        // of its threads, if they were requested
  // Set by the receiver, not sent: its node, and the time since the last message of that.
  int node_rank = 0;
  double silent_s = 0;

  // Inside a collective, where it waits for others.
  bool is_waiting() const { return progress.in_operation; }
};

// Reads page and process state of the worker with process id `pid`, started as `rank` on `host`.
// nullopt: its program does not write to the page, so its state is unknown.
std::optional<RankView> view_rank(const ProgressPage& page, int rank, const std::string& host,
                                  int64_t pid);

}  // namespace lockstep::launch
