// What a launcher must know to become the coordinator when the node of the last one is lost, with
// --on-rank-loss continue: where the other launchers listen, and which workers are in the group of ranks
// (launch/rendezvous/regrouping.h). The coordinator sends it to every node with each change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launch {

// Limit of numbers of groups, steps and claims, which are counted up.
inline constexpr int64_t kMaxGroup = int64_t{1} << 40;

// A node of an attempt.
struct JobNode {
  int num_ranks = 1, num_spares = 0;
  std::string address;     // at which the other nodes reach it
  int port = 0;            // where its launcher listens if it becomes the coordinator; 0: nowhere
  std::string label;       // "hostB (10.0.0.2)"
  bool is_present = true;  // it has not been lost
  std::optional<int> given_rank = {};  // the number that the user gave it
  int64_t since = 0;  // it joined with this version of the state, in place of a node that was lost
};

// A LostRank.
struct JobLoss {
  int rank = 0;
  std::string how;
  bool has_left = false;
};

struct JobState {
  // Flags of a member: a worker of any node, numbered as in Regrouping.
  enum Flag {
    Alive = 1,
    Connected = 2,
    Lost = 4,
    Replaced = 8,
    HasLeft = 16,
    HasQuit = 32,
    WasReady = 64
  };

  std::string key;         // of the attempt
  int64_t version = 0;     // the newest state has the highest
  int64_t num_claims = 0;  // see launch/rendezvous/job_claims.h
  int coordinator = 0;     // the number of its node
  int num_restarts = 0;    // before this attempt
  std::string run_id;
  std::vector<JobNode> nodes;
  int64_t group = 0,
          group_step = 0;  // the number of the current group; the step at which it was formed
  int world_size = 1;
  std::vector<int> ranks;       // of each member in the current group; -1: none
  std::vector<int> flags;       // of each member
  std::vector<int> starts;      // of each member, after the first one
  std::vector<JobLoss> losses;  // since the current group was formed, of its ranks

  // Of the current group, on a node.
  int num_ranks_on(int node) const;
  // Whether other nodes have ranks of it.
  bool has_ranks_without(int node) const;
  // Whether the numbers of nodes, members and ranks fit together.
  bool is_consistent() const;
};

}  // namespace lockstep::launch
