// Determines whether ranks share a host, and sets up their segment. Ranks communicate through a
// key-value store.
//
// Note [Who shares a host]: configuration is not trusted (LOCAL_WORLD_SIZE may be wrong, containers
// may hide processes from each other); ranks share a host if they have mapped the same memory. If
// all host identities are equal, rank 0 creates the segment, and the others open it through /proc
// and verify its token. Rank 0 then publishes whether all succeeded.
#pragma once

#include <memory>
#include <string>

#include "distributed/shm/group.h"

namespace lockstep::distributed::shm {

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key) = 0;  // waits until the key is set
};

struct HostRank {
  int rank = 0;
  int num_ranks = 1;
  std::string host = host_identity();
};

struct DiscoveredGroup {
  std::unique_ptr<Group> group;  // of all ranks; null if they do not share memory
  std::string reason;            // why `group` is null, the same on every rank
};

// Collective. Throws what the store throws.
DiscoveredGroup discover_host_group(KeyValueStore& store, const HostRank& self);

}  // namespace lockstep::distributed::shm
