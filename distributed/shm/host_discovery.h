// How ranks find out which of them share a host, and get a segment there. They know each other
// through a board, a small key-value store that all of them reach.
//
// Note [Who shares a host]: not who says so (a LOCAL_WORLD_SIZE may be wrong, containers may hide
// processes from each other) but who has mapped the same memory. Ranks with the same host identity
// try: the first of them makes the segment, the others open it through /proc and look for its
// token. Rank 0 then tells everybody whether all succeeded.
#pragma once

#include <memory>
#include <string>

#include "distributed/shm/group.h"

namespace lockstep::distributed::shm {

class Board {
 public:
  virtual ~Board() = default;
  virtual void put(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key) = 0;  // waits until somebody has put it
};

struct HostRank {
  int rank = 0;
  int num_ranks = 1;
  std::string host = host_identity();
};

struct DiscoveredGroup {
  std::unique_ptr<Group> group;  // of all ranks; none: `reason` says why, the same on every rank
  std::string reason;
};

// Collective. Throws what the board throws.
DiscoveredGroup meet(Board& board, const HostRank& place);

}  // namespace lockstep::distributed::shm
