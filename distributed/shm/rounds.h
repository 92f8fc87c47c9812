// Ranks of one host meet in shared memory, round after round: nobody leaves a round before all have
// come. The state of the ranks lies at the front of the group's segment.
//
// Note [Waiting]: a rank that comes early looks at the others' counters for a while, which is the
// quickest while every rank has a core of its own, then sleeps in the kernel (futex), which leaves
// the core to whoever keeps the others from coming. Looking in vain makes its patience shorter: on
// crowded cores it may be the very core that the awaited rank needs. Now and then it is patient
// again, to see whether that has changed. While it sleeps it looks ten times a second whether the
// others still live.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "distributed/shm/call.h"
#include "distributed/shm/peers.h"

namespace lockstep::distributed::shm {

// One rank, alone on its cache lines.
struct alignas(128) RankLine {
  std::atomic<uint32_t> arrived;   // in this many rounds; others sleep on it
  std::atomic<uint32_t> sleepers;  // how many do
  std::atomic<uint32_t> has_left;  // its group is closed
  std::atomic<int32_t> pid;
  Call calls[2];  // what it does in even and odd rounds
};

// Front of a segment.
struct alignas(128) SegmentHeader {
  uint64_t token[2];  // whose segment it is
};

using Clock = std::chrono::steady_clock;

struct RankSlots {
  int rank = 0;
  int num_ranks = 1;
  RankLine* lines = nullptr;
};

class Rounds {
 public:
  // Requires: all ranks have written their pid into their line.
  explicit Rounds(const RankSlots& place);
  ~Rounds();  // tells the others that this rank is gone
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // Returns when all ranks have come to this round. Before that, what this rank wrote was made
  // visible to them, and what `call` has a place for lies at the same place on all ranks if the
  // answer is true. Throws PeerLost: a peer ended, left, has not come by `deadline`, or calls
  // something other than `call`.
  bool meet(const Call& call, Clock::time_point deadline);

 private:
  void wait_for(int rank, Clock::time_point deadline);
  void sleep_until_changed(RankLine& line, uint32_t seen, Clock::time_point deadline);
  void check_peers(Clock::time_point deadline) const;
  bool compare(const Call& call) const;
  bool has_arrived(int rank) const;
  RankLine& line(int rank) const { return place_.lines[rank]; }

  RankSlots place_;
  Peers peers_;
  bool spin_until_arrived(int rank);

  std::chrono::nanoseconds max_spin_budget_, spin_budget_;  // how long to look before sleeping
  unsigned num_waits_ = 0;
  uint32_t round_ = 0;
};

}  // namespace lockstep::distributed::shm
