// Adds the gradients of several hosts (distributed.shard with backend: hierarchical). Each rank has
// the sums of its host for its part of a unit, and adds them to those of the ranks that have the
// same part on the other hosts: an all-to-all, after which each of these ranks adds an equal share,
// then an all-gather. Both have the traffic of a ring all-reduce of that part, and overlap with the
// backward pass. The order of sums is that of the leaders' all-reduce in HierarchicalBackend, with
// the same bits. Only files of distributed/ include this.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <deque>
#include <vector>

#include "distributed/shm/group.h"

namespace lockstep::distributed {

// Thread: one at a time.
class HostSums {
 public:
  // `peers`: HostGroups::peers, outlives this.
  explicit HostSums(c10d::Backend& peers) : peers_(peers) {}

  // Collective between the peers, which pass the same places. Replaces `own`, of one type, by the
  // sums over hosts; they are complete after finish(), and their memory is not used until then.
  void start(std::vector<shm::Group::PerHostPart> own);

  // Collective between the peers.
  void finish();

 private:
  // A started exchange. `received` has this rank's share of the sums of each host, then all shares
  // of the result.
  struct Exchange {
    std::vector<shm::Group::PerHostPart> own;
    size_t share = 0;           // bytes
    at::Tensor sent, received;  // bytes: a share for each host
    c10::intrusive_ptr<c10d::Work> work;
    bool is_gathering = false;
  };

  void advance();
  void add_own_share(Exchange& exchange) const;

  c10d::Backend& peers_;
  std::deque<Exchange> pending_;  // at most one of them is not gathering yet
  std::vector<Exchange> free_;    // memory to be used again
};

}  // namespace lockstep::distributed
