// What a launcher knows of one rank at one moment: its progress page and what the kernel says of
// its process. Travels between the launchers of a job.
#pragma once

#include <optional>
#include <string>

#include "core/system/progress_page.h"

namespace lockstep::launch {

struct RankView {
  ProgressSnapshot progress;
  std::string host;
  char process_state = '?';  // as in /proc/<pid>/stat: R, S, D, T (stopped), Z
  std::string bucket;        // parameters of the oldest bucket under way; empty: none is
  std::string stacks;        // of its threads, when they were asked for
  double silent_s = 0;       // since its node was heard; not told: the node that hears it counts

  // Inside a collective operation, where it waits for others.
  bool waits() const { return progress.in_operation; }
};

// Reads page and process of a worker that was started as `rank` on `host` with process id `pid`.
// nullopt: its program does not write to the page, and cannot be judged.
std::optional<RankView> view_rank(const ProgressPage& page, int rank, const std::string& host,
                                  int64_t pid);

}  // namespace lockstep::launch
