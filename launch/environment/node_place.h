#pragma once

#include <string>

namespace lockstep::launch {

// A node's ranks in one attempt.
struct NodePlace {
  int node_rank = 0, num_nodes = 1;
  int first_rank = 0;  // of this node
  int world_size = 1;
  int restart_count = 0, max_restarts = 0;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  std::string address;  // at which the other nodes reach this one; empty if there are none
  std::string run_id;
  bool joins = false;  // an attempt that runs: its workers are not ranks until they get places
  std::string claim;   // joins: a file of the other nodes (launch/rendezvous/job_claims.h)
};

}  // namespace lockstep::launch
