// What the node that serves the rendezvous makes of what the ranks of all nodes are doing.
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
  double silent_s = 0;  // since the node was heard
};

// Asked of every node: the stacks of these ranks of it, or a dump of all its ranks.
struct StackRequest {
  std::vector<int> ranks;
  bool dump = false;
};

// Called on the launcher's thread; must not wait.
class StatusJudge {
 public:
  virtual ~StatusJudge() = default;

  virtual void begin_attempt() = 0;
  // After a status came: the last of each node, by node rank, of this attempt.
  virtual std::optional<StackRequest> judge(const std::map<int, NodeStatus>& by_node) = 0;
  // An attempt has ended: adds what is known of it.
  virtual void explain(LaunchReport& attempt) const = 0;
};

}  // namespace lockstep::launch
