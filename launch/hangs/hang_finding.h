// Determines which rank of a job keeps the others waiting, from the state of all ranks at one
// moment. Pure: no clock, no I/O.
//
// All ranks enter the same collectives in the same order, so the others wait for the rank that has
// entered the fewest. If no rank lags, their operations differ (the program branched differently on
// different ranks), a process is stopped, or the network fails. A node that has been silent for
// seconds may have lost its network or power: the last known state of its ranks is outdated.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "launch/hangs/rank_view.h"

namespace lockstep::launch {

struct HangFinding {
  std::vector<int> culprits;  // ranks; empty: none stands out
  // Nodes whose status is missing: the state of their ranks is unknown, and no rank is blamed.
  std::vector<std::string> silent_hosts;
  double silent_s = 0;   // the longest
  double waited_s = 0;   // the longest wait of a rank
  double timeout_s = 0;  // of that wait; 0: not known
  // Identifies a hang; constant while it lasts.
  std::string key;

  // The timeout expires in a few seconds: a dump is due.
  bool is_overdue() const {
    return timeout_s > 0 && waited_s >= timeout_s - std::max(3.0, 0.05 * timeout_s);
  }
};

// nullopt: no rank waits longer than usual. `views`: one per rank, in any order.
std::optional<HangFinding> find_hang(const std::vector<RankView>& views);

// Several lines for the user: which rank, for how long, where; with the available stacks.
std::string describe_hang(const HangFinding& finding, const std::vector<RankView>& views);

// Describes a rank for which the others timed out after `timeout_s`, in the past tense: its state
// on one line, where it was on another.
std::string describe_culprit(const RankView& view, double timeout_s);

// The state of a rank with its stacks, on a few lines.
std::string describe_rank(const RankView& view);

}  // namespace lockstep::launch
