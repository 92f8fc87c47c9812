// Collectives of the ranks of one host, through a segment that all of them have mapped. Each rank
// owns two slots of the segment; a collective goes through them window by window: write the own
// slot, meet, read the others'. Two slots, so that one meeting per window is enough: who writes a
// slot again has met all readers of it in the round between.
//
// Every call is collective: all ranks of the group make the same calls in the same order, and a
// call returns when its result is there. Throws PeerLost (distributed/shm/peers.h); the group is of
// no use after that. Thread: one at a time.
//
// Large arrays in memory of allocate() do not go through the slots: each rank reduces a slice of
// them for all, where they are.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distributed/shm/call.h"
#include "distributed/shm/reduction.h"
#include "distributed/shm/symmetric_buffer.h"
#include "distributed/shm/rounds.h"
#include "distributed/shm/segment.h"

namespace lockstep::distributed::shm {

// A part of an array of one element type, in any memory of this process.
struct Array {
  std::byte* data = nullptr;
  size_t count = 0;
  ElementType type = ElementType::Bytes;

  size_t bytes() const { return count * size_of(type); }
};

class Group {
 public:
  // 1 MiB, less with many ranks: the caches of one host hold all slots, and on crowded cores there
  // are few meetings.
  static size_t default_slot_bytes(int num_ranks);

  // Size of a segment for `num_ranks` ranks.
  static size_t segment_bytes(int num_ranks);

  // `segment`: of segment_bytes(), with the pid of every rank in its line.
  Group(Segment segment, int rank, int num_ranks);

  int rank() const { return rank_; }
  int num_ranks() const { return num_ranks_; }

  void barrier(Clock::time_point deadline);

  // In place; `root`'s content on every rank.
  void broadcast(const Array& array, int root, Clock::time_point deadline);

  // In place. The order of sums: Note [Order of sums].
  void all_reduce(const Array& array, Reduction reduction, Clock::time_point deadline);

  // As all_reduce with the sum of `parts` as if they were one array, each element multiplied by
  // `factor` before it is added: how gradients are averaged where they are, without a bucket.
  // Requires: parts of one floating-point type, `count` elements together.
  void average_parts(std::span<const Array> parts, size_t count, double factor,
                     Clock::time_point deadline);

  // Memory of this rank for arrays that all_reduce() reduces without copies, if they lie at the
  // same place on every rank. Null on every rank where one of them cannot have it.
  std::shared_ptr<SymmetricBuffer> allocate(size_t bytes, Clock::time_point deadline) {
    return symmetric_buffers_.make(*this, bytes, deadline);
  }

  // An array of one type in a buffer.
  struct Stretch {
    size_t offset, count;
    ElementType type;
  };
  // As average_parts() with one array after the other, each of which lies at the same place of
  // `buffer` on all ranks. Requires: floating-point types.
  void average_in(const SymmetricBuffer& buffer, std::span<const Stretch> stretches, double factor,
                  Clock::time_point deadline);

  // In place on `root`; the others' arrays stay as they are.
  void reduce(const Array& array, Reduction reduction, int root, Clock::time_point deadline);

  // out[rank]: where the array of `rank` goes; `mine.bytes()` each.
  void all_gather(const Array& mine, std::span<std::byte* const> out, Clock::time_point deadline);

  // As all_gather, on `root` only; `out` is empty elsewhere.
  void gather(const Array& mine, std::span<std::byte* const> out, int root,
              Clock::time_point deadline);

  // in[rank]: what `rank` gets, on `root`; empty elsewhere.
  void scatter(std::span<const std::byte* const> in, const Array& mine, int root,
               Clock::time_point deadline);

  // in[rank]: this rank's part of what `rank` gets; `mine` becomes the sum (or other reduction) of
  // what all ranks have for this one.
  void reduce_scatter(std::span<const std::byte* const> in, const Array& mine, Reduction reduction,
                      Clock::time_point deadline);

 private:
  // A part of an array, in bytes.
  struct Window {
    size_t begin, size;
  };
  // A whole array, gone through in windows of at most `window` bytes.
  struct Pass {
    size_t bytes, window;
    Clock::time_point deadline;
  };
  template <class Write, class Read>
  void go_through(const Call& call, const Pass& pass, const Write& write, const Read& read);
  struct Sum {
    Call call;
    SumOrder order;
  };
  void combine_window(const Sum& sum, const Window& window, const Window& part,
                      const std::byte* own, std::byte* out);
  void share_slices(const Sum& sum, const Window& window, Clock::time_point deadline);
  bool use_nontemporal_stores(const Call& call, Clock::time_point deadline);
  bool reduce_in_place(const Call& call, const Array& array, Clock::time_point deadline);
  template <class ReduceBlock>
  void share_stretch(const SymmetricBuffer& buffer, const Stretch& stretch, const ReduceBlock& reduce_block);
  void collect(const Call& call, const Array& mine, std::span<std::byte* const> out,
               Clock::time_point deadline);
  void copy_slices(const Window& window, const Window& part, std::byte* out) const;
  Window slice(const Window& window, int rank) const;
  bool in_one_pass(size_t bytes) const;
  size_t part_bytes() const;
  std::byte* slot(int rank) const;

  Segment segment_;
  int rank_, num_ranks_;
  size_t slot_bytes_;
  Rounds rounds_;
  unsigned turn_ = 0;                      // which of the two slots
  std::optional<bool> use_nontemporal_stores_;        // how arrays are copied there; nothing: not tried yet
  std::vector<const std::byte*> sources_;  // of one reduction
  SymmetricBuffers symmetric_buffers_;
};

// Parts of a segment.
SegmentHeader& header_of(const Segment& segment);
RankLine* lines_of(const Segment& segment);

}  // namespace lockstep::distributed::shm
