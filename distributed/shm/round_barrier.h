// A barrier between the ranks of one host in shared memory, used round after round. The state of
// the ranks is stored at the start of the group's segment.
//
// Note [Waiting]: adaptive spin-then-park. A rank that arrives early spins on the others' counters,
// which is fastest while every rank has its own core, then sleeps in the kernel (futex), which
// frees the core. It spins for up to 100 us. Each miss halves the budget, because on crowded cores
// the spinning rank may occupy the core that the awaited rank needs; every 16th wait tries the full
// budget again. While it sleeps, it checks fifty times per second that its peers are
// alive.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "distributed/shm/call.h"
#include "distributed/shm/peers.h"

namespace lockstep::distributed::shm {

// State of one rank, on its own cache lines.
struct alignas(128) RankState {
  std::atomic<uint32_t> arrived;   // rounds entered; the futex that others sleep on
  std::atomic<uint32_t> sleepers;  // ranks that sleep on `arrived`
  std::atomic<uint32_t> has_left;  // its group is closed
  std::atomic<int32_t> pid;
  Call calls[2];  // of even and odd rounds
};

// Start of a segment.
struct alignas(128) SegmentHeader {
  uint64_t token[2];  // identifies the segment
};

using Clock = std::chrono::steady_clock;

struct RankTable {
  int rank = 0;
  int num_ranks = 1;
  RankState* states = nullptr;
};

class RoundBarrier {
 public:
  // Requires: all ranks have written their pid into their state.
  explicit RoundBarrier(const RankTable& table);
  ~RoundBarrier();  // marks this rank as gone and wakes its peers
  RoundBarrier(const RoundBarrier&) = delete;
  RoundBarrier& operator=(const RoundBarrier&) = delete;

  // Returns when all ranks have entered this round; all they wrote before is visible then. Returns
  // true if `call` has a symmetric address and it is the same on all ranks. Throws PeerLost: a peer
  // exited, left, did not arrive by `deadline`, or made a different call.
  bool arrive_and_wait(const Call& call, Clock::time_point deadline);

 private:
  void wait_for(int rank, Clock::time_point deadline);
  bool spin_until_arrived(int rank);
  void sleep_until_changed(RankState& state, uint32_t seen, Clock::time_point deadline);
  void check_peers(Clock::time_point deadline) const;
  bool check_calls(const Call& call) const;
  bool has_arrived(int rank) const;
  RankState& state(int rank) const { return table_.states[rank]; }

  RankTable table_;
  Peers peers_;
  std::chrono::nanoseconds max_spin_budget_, spin_budget_;
  unsigned num_waits_ = 0;
  uint32_t round_ = 0;
};

}  // namespace lockstep::distributed::shm
