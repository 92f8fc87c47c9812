// A node as the coordinator knows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/system/poll_set.h"
#include "launch/protocol/connection.h"
#include "launch/protocol/messages.h"

namespace lockstep::launch {

struct NodeRecord {
  Connection connection;
  std::optional<JoinMessage> join = {};
  std::string label = {};  // "hostB (10.0.0.2)"
  int arrival = 0;
  bool is_own = false;
  bool is_ready_for_io = false;
  std::optional<ReadyMessage> ready = {};
  bool in_group = false;  // of the current attempt
  int node_rank = 0;      // in it
  bool is_joining =
      false;  // none of its workers has been a rank: it joined while the others trained
  bool is_stopping = false;  // it has the order, although the others train or have finished
  std::string problem = {};  // why its workers cannot join; empty: they can
  bool has_ended = false;
  std::vector<RankView> ranks = {};  // their last status
  std::optional<PollSet::Clock::time_point> status_received = {};
  bool has_responded = false;  // since it was probed
  bool is_dropped = false;     // drop_node() was called; it is removed next
};

}  // namespace lockstep::launch
