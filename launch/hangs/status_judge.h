// Interface through which the coordinator evaluates the status of all ranks.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "launch/hangs/rank_view.h"
#include "launch/report/launch_report.h"

namespace lockstep::launch {

// The last status of a node.
struct NodeStatus {
  std::vector<RankView> ranks;
  double silent_s = 0;  // since the last message of the node
};

// Sent to every node: requests the stacks of those of its ranks that are listed, or a dump of all.
struct StackRequest {
  std::vector<int> ranks;
  bool dump = false;
};

// Called on the launcher's thread; must not block.
class StatusJudge {
 public:
  virtual ~StatusJudge() = default;

  virtual void begin_attempt() = 0;
  // After a status has arrived: the last one of each node in this attempt, by node rank.
  virtual std::optional<StackRequest> judge(const std::map<int, NodeStatus>& by_node) = 0;
  // After an attempt has ended: adds the findings to its report.
  virtual void explain(LaunchReport& attempt) const = 0;
};

}  // namespace lockstep::launch
