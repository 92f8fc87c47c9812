// What the launchers of all nodes tell each other while their workers run, for whoever watches over
// the job: an opaque JSON value of at most kMostStatusBytes from every node, and one answer to all.
// The functions are called on the launcher's thread and must not wait.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep {

struct LaunchReport;

inline constexpr size_t kMostStatusBytes = 64u << 10;  // as JSON text; a larger one is not sent

// The last status of a node.
struct NodeStatus {
  nlohmann::json value;
  double silent_s = 0;  // since the node was heard
};

struct StatusExchange {
  // On every node, once per monitor interval while its workers run: what it has to say. Sent when
  // it differs from the last one; null: nothing.
  std::function<nlohmann::json()> local;
  // On the node that serves the rendezvous, after one came: the last of each node, by node rank, of
  // this attempt. What it returns goes to every node; null: nothing.
  std::function<nlohmann::json(const std::map<int, NodeStatus>& by_node)> judge;
  // There too, when an attempt has ended: adds what the watch knows of it.
  std::function<void(LaunchReport& attempt)> explain;
  // On every node: an answer came.
  std::function<void(const nlohmann::json& answer)> take_answer;
};

}  // namespace lockstep
