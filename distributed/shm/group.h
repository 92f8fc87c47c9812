// Collectives between the ranks of one host, through a segment that all of them have mapped. Each
// rank owns two slots of the segment. A collective processes its data window by window: write the
// own slot, wait at the barrier, read the slots of the others. The slots alternate, so one barrier
// per window is enough: before a rank reuses a slot, all readers have passed the barrier between.
//
// Every call is collective: all ranks of the group make the same calls in the same order. A call
// returns when its result is complete. Throws PeerLost (distributed/shm/peers.h), after which the
// group is unusable. Thread: one at a time.
//
// Large arrays in symmetric buffers bypass the slots: each rank reduces one slice in place and
// writes it to all ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distributed/shm/call.h"
#include "distributed/shm/reduction.h"
#include "distributed/shm/round_barrier.h"
#include "distributed/shm/segment.h"
#include "distributed/shm/symmetric_buffer.h"

namespace lockstep::distributed::shm {

class Group {
 public:
  // 1 MiB, less with many ranks: small enough that all slots fit the caches of one host, large
  // enough that few barriers are needed.
  static size_t default_slot_bytes(int num_ranks);

  // Size of a segment for `num_ranks` ranks.
  static size_t segment_bytes(int num_ranks);

  // `segment`: of segment_bytes(), with the pid of every rank in its state.
  Group(Segment segment, int rank, int num_ranks);

  int rank() const { return rank_; }
  int num_ranks() const { return num_ranks_; }

  void barrier(Clock::time_point deadline);

  // In place: copies `root`'s array to every rank.
  void broadcast(const Array& array, int root, Clock::time_point deadline);

  // In place. For the order of summation see Note [Order of sums].
  void all_reduce(const Array& array, Reduction reduction, Clock::time_point deadline);

  // all_reduce with Sum over the concatenation of `parts`; each element is multiplied by the factor
  // before it is added. Averages gradients without copying them into a bucket.
  // Requires: parts of one floating-point type, `count` elements in total.
  void average_parts(std::span<const Array> parts, size_t count, const Averaging& averaging,
                     Clock::time_point deadline);

  // Allocates a symmetric buffer. all_reduce() reduces arrays in it in place if they have the same
  // offset on every rank. Returns null on every rank if one of them cannot allocate it.
  std::shared_ptr<SymmetricBuffer> allocate(size_t bytes, Clock::time_point deadline) {
    return symmetric_buffers_.make(*this, bytes, deadline);
  }

  // An array of one type in a buffer.
  struct BufferRange {
    size_t offset, count;
    ElementType type;
  };
  // Like average_parts() for each range of `buffer` one after another. Requires: floating-point
  // types.
  void average_in_buffer(const SymmetricBuffer& buffer, std::span<const BufferRange> ranges,
                         const Averaging& averaging, Clock::time_point deadline);

  // Part of a larger array, and where the averages of its elements go.
  struct PerHostPart {
    Array in;
    std::byte* out;        // memory that all ranks have mapped
    size_t offset, whole;  // elements: position in the larger array, and its size
  };
  // Like average_parts() of the larger arrays, for some of their elements; each average is written
  // once, to `out`; those of other ranks are complete after the next barrier. Returns what this
  // rank wrote; `in` is the averages. Requires: parts of one floating-point type.
  std::vector<PerHostPart> average_per_host(std::span<const PerHostPart> parts,
                                            const Averaging& averaging, Clock::time_point deadline);

  // In place on `root`; the arrays of the other ranks are unchanged.
  void reduce(const Array& array, Reduction reduction, int root, Clock::time_point deadline);

  // out[rank]: destination for the array of `rank`; `in.bytes()` each.
  void all_gather(const Array& in, std::span<std::byte* const> out, Clock::time_point deadline);

  // In place: `whole` is num_ranks() equal chunks; receives chunk r from rank r. Copied once,
  // directly from the other ranks, if `whole` has the same symmetric address on all ranks.
  void all_gather_chunks(const Array& whole, Clock::time_point deadline);

  // Like all_gather, on `root` only; `out` is empty on the other ranks.
  void gather(const Array& in, std::span<std::byte* const> out, int root,
              Clock::time_point deadline);

  // in[rank]: the array for `rank`, on `root`; empty on the other ranks.
  void scatter(std::span<const std::byte* const> in, const Array& out, int root,
               Clock::time_point deadline);

  // in[rank]: this rank's contribution to `out` of `rank`, which receives their reduction.
  void reduce_scatter(std::span<const std::byte* const> in, const Array& out, Reduction reduction,
                      Clock::time_point deadline);

 private:
  // A part of an array, in bytes.
  struct Window {
    size_t begin, size;
  };
  // One pass over an array in windows of at most `window` bytes.
  struct Pass {
    size_t bytes, window;
    Clock::time_point deadline;
  };
  template <class Write, class Read>
  void for_each_window(const Call& call, const Pass& pass, const Write& write, const Read& read);
  struct Sum {
    Call call;
    SumOrder order;
  };
  void reduce_window(const Sum& sum, const Window& window, const Window& part, const std::byte* own,
                     std::byte* out);
  void reduce_own_slice(const Sum& sum, const Window& window, Clock::time_point deadline);
  bool use_nontemporal_stores(const Call& call, Clock::time_point deadline);
  bool reduce_in_place(const Call& call, const Array& array, Clock::time_point deadline);
  template <class ReduceBlock>
  void reduce_own_slice_in_place(const SymmetricBuffer& buffer, const BufferRange& range,
                                 SumKind kind, const ReduceBlock& reduce_block);
  void gather_arrays(const Call& call, const Array& in, std::span<std::byte* const> out,
                     Clock::time_point deadline);
  void reduce_per_host(const PerHostPart& part, const Window& bytes, size_t in_slot, SumKind kind);
  void copy_slices(const Window& window, const Window& part, std::byte* out) const;
  Window slice(const Window& window, int rank) const;
  bool in_one_pass(size_t bytes) const;
  size_t part_bytes() const;
  std::byte* slot(int rank) const;

  Segment segment_;
  int rank_, num_ranks_;
  size_t slot_bytes_;
  RoundBarrier barrier_;
  unsigned window_number_ = 0;             // selects one of the two slots
  std::optional<bool> nontemporal_;        // use_nontemporal_stores(), once measured
  std::vector<const std::byte*> sources_;  // of one reduction
  SymmetricBuffers symmetric_buffers_;
};

}  // namespace lockstep::distributed::shm
