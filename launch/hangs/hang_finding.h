// Which rank of a job keeps the others waiting, judged from what all of them were doing at one
// moment. Pure: no clock, no I/O.
//
// All ranks enter the same collective operations in the same order, so the rank that has entered
// the fewest is the one that the others wait for. Where all are in the same one, their operations
// differ (the program took different ways on different ranks), a process is stopped, or the network
// does not carry. A node that has been silent for seconds may have lost its network or its power:
// what its ranks did then says nothing about now.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "launch/hangs/rank_view.h"

namespace lockstep::launch {

struct HangFinding {
  std::vector<int> culprits;  // ranks; empty: none stands out
  // Nodes that have not been heard: what their ranks do is not known, and no rank is blamed.
  std::vector<std::string> silent_hosts;
  double silent_s = 0;   // the longest
  double waited_s = 0;   // how long the first one has waited for them
  double timeout_s = 0;  // how long it will; 0: not known
  // The same hang has the same key as long as it lasts.
  std::string key;

  // Time for a dump: there are a few seconds left.
  bool is_overdue() const {
    return timeout_s > 0 && waited_s >= timeout_s - std::max(3.0, 0.05 * timeout_s);
  }
};

// nullopt: nobody waits for longer than is usual. `views`: one per rank, in any order.
std::optional<HangFinding> find_hang(const std::vector<RankView>& views);

// Several lines for a person: who, since when, where; with the stacks that are there.
std::string describe_hang(const HangFinding& finding, const std::vector<RankView>& views);

// Of a rank that the others gave up waiting for after `timeout_s`, in the past tense: what it did
// in one line, where it was in another.
std::string describe_culprit(const RankView& view, double timeout_s);

// What one rank is doing, with its stacks: a few lines.
std::string describe_rank(const RankView& view);

}  // namespace lockstep::launch
