// Which rank of a job keeps the others waiting, judged from what all of them were doing at one
// moment. Pure: no clock, no I/O.
//
// All ranks enter the same collective operations in the same order, so the rank that has entered
// the fewest is the one that the others wait for. Where all are in the same one, their operations
// differ (the program took different ways on different ranks), a process is stopped, or the network
// does not carry.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_view.h"

namespace lockstep {

struct HangFinding {
  std::vector<int> culprits;  // ranks; empty: none stands out
  double waited_s = 0;        // how long the first one has waited for them
  double timeout_s = 0;       // how long it will; 0: not known
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

// What one rank is doing, with its stacks: a few lines.
std::string describe_rank(const RankView& view);

}  // namespace lockstep
