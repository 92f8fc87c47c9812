// The processes of a group, watched: whether one of them has ended, for whatever reason.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::distributed::shm {

// A peer is gone, does not come in time, or calls something else: the group cannot be used any
// more.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// On how many cores these processes may run, taken together: each may be bound to one of its own.
// Those that are gone count for nothing.
int count_usable_cores(const std::vector<pid_t>& pids);

class Peers {
 public:
  // `pids`: by rank, this process's own included. They are alive or were a moment ago.
  explicit Peers(const std::vector<pid_t>& pids);

  // Whether the process of `rank` has ended. Asks the kernel, never waits.
  bool has_ended(int rank) const;
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }

 private:
  std::vector<pid_t> pids_;
  std::vector<FileDescriptor> handles_;  // pidfds: a pid that is used again is no confusion
};

}  // namespace lockstep::distributed::shm
