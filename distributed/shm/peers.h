// Detects that a process of a group has exited or was killed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::distributed::shm {

// A peer is gone, timed out, or made a different call. The group is unusable afterwards.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Size of the union of these processes' CPU affinity masks. Processes that are gone are ignored.
int count_usable_cores(const std::vector<pid_t>& pids);

class Peers {
 public:
  // `pids`: by rank, including this process.
  explicit Peers(const std::vector<pid_t>& pids);

  // Whether the process of `rank` has exited. One system call, never waits.
  bool has_ended(int rank) const;
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }

 private:
  std::vector<pid_t> pids_;
  std::vector<FileDescriptor> handles_;  // pidfds: safe against pid reuse
  std::vector<bool> had_ended_;          // when they were to be opened
};

}  // namespace lockstep::distributed::shm
