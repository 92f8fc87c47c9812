// Element-wise reductions over several arrays. No threads, no system calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "distributed/shm/call.h"

namespace lockstep::distributed::shm {

// Whether `reduction` is defined for `type`: floating point has averages but no bitwise operations,
// integers the reverse; for Bool, sum and max are "or", product and min are "and".
bool is_defined(Reduction reduction, ElementType type);

// out[i] = sources[0][i] o sources[1][i] o ..., from left to right. `out` may be one of the
// sources. Float16 and BFloat16 accumulate in float32 and round once at the end. Min and max
// propagate NaN; integers wrap around. Average divides the sum by the number of sources. Requires:
// is_defined(reduction, type), at least one source.
void combine(std::byte* out, std::span<const std::byte* const> sources, size_t count,
             ElementType type, Reduction reduction);

// out[i] = in[i] * factor, with the factor rounded to the type of the multiplication: float64 for
// Float64, else float32. Requires: a floating-point type.
void scale(std::byte* out, const std::byte* in, size_t count, ElementType type, double factor);

// The order in which the arrays of the ranks are added.
//
// Note [Order of sums]: floating-point sums depend on their order. Python's DistributedDataParallel
// on CPUs adds in the order of Gloo's ring: the array is split into one chunk per rank; the sum of
// chunk c starts at rank c-1 and continues down the ranks to rank c. The same order here gives the
// same bits for any number of ranks. (With two ranks there is only one order.) A balanced binary
// tree in the order of the ranks gives the same bits as ranks that each add a part of it
// (distributed.virtual_shards).
enum class SumKind : uint8_t { Ring, Tree };

// out[i] = sources[0][i] * factor + sources[1][i] * factor + ...: scale() each source, then
// combine() with Sum, or with Tree ((s0 + s1) + (s2 + s3)) + ... `out` may be one of the sources.
// Requires: a floating-point type; with Tree, a power of two of sources.
void add_scaled(std::byte* out, std::span<const std::byte* const> sources, size_t count,
                ElementType type, double factor, SumKind kind = SumKind::Ring);

// What ranks do with an array of gradients: multiply it by a factor, then add.
struct Averaging {
  double factor = 1;
  SumKind kind = SumKind::Ring;
};

// See Note [Order of sums].
class SumOrder {
 public:
  SumOrder(int num_ranks, size_t count, size_t element_bytes, SumKind kind = SumKind::Ring);

  SumKind kind() const { return kind_; }

  // Calls visit(chunk, begin, end) for each chunk that overlaps [begin, end), with the overlap.
  template <class Visit>
  void for_each_chunk(size_t begin, size_t end, const Visit& visit) const {
    for (size_t stop = begin; begin < end; begin = stop) {
      const auto chunk = static_cast<int>(std::min(begin / chunk_, last_));
      stop = begin / chunk_ >= last_ ? end : std::min(end, (begin / chunk_ + 1) * chunk_);
      visit(chunk, begin, stop);
    }
  }

  // The rank that contributes summand `i` in `chunk`.
  int rank_at(int chunk, int i) const {
    return kind_ == SumKind::Tree ? i : (chunk - 1 - i + 2 * num_ranks_) % num_ranks_;
  }

  // Adds one array per rank, given in the order of rank_at().
  void add(std::byte* out, std::span<const std::byte* const> sources, size_t count,
           ElementType type) const;

 private:
  SumKind kind_;
  int num_ranks_;
  size_t chunk_;  // elements
  size_t last_;   // index of the last chunk, which is the shortest
};

}  // namespace lockstep::distributed::shm
