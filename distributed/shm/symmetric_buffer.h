// Memory that all ranks of a group have mapped: symmetric buffers, which have equal size on each
// rank, and buffers with one copy per host.
//
// Arrays at the same offset on every rank are reduced in place, without copies. Created by
// Group::allocate().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/shm/segment.h"

namespace lockstep::distributed::shm {

class Group;

class SymmetricBuffer {
 public:
  // `segments`: one per rank, of equal size. `number`: unique in the group.
  SymmetricBuffer(std::vector<Segment> segments, int rank, uint64_t number);

  std::byte* data() const { return of(rank_); }
  std::byte* of(int rank) const { return segments_[static_cast<size_t>(rank)].data(); }
  size_t bytes() const { return segments_[static_cast<size_t>(rank_)].bytes(); }
  bool contains(const std::byte* data, size_t size) const {
    return data >= this->data() && data + size <= this->data() + bytes();
  }

  // A nonzero number that identifies this buffer and `offset` within the group.
  uint64_t address_of(size_t offset) const { return number_ << kOffsetBits | offset; }

 private:
  static constexpr int kOffsetBits = 44;

  std::vector<Segment> segments_;
  int rank_;
  uint64_t number_;
};

// Registry of the live buffers of a group. Thread: one at a time.
class SymmetricBuffers {
 public:
  // Collective. Returns null on every rank if one cannot allocate `bytes` or map a peer's part.
  std::shared_ptr<SymmetricBuffer> make(Group& group, size_t bytes,
                                        std::chrono::steady_clock::time_point deadline);

  // The buffer that contains [data, data + size), or null.
  std::shared_ptr<const SymmetricBuffer> find(const std::byte* data, size_t size);

 private:
  std::vector<std::weak_ptr<const SymmetricBuffer>> buffers_;
  uint64_t num_made_ = 0;
};

// Collective. Zeroed memory that all ranks of `group` share. Each rank reserves
// an equal part of it, in rank order, so that the control groups of the ranks share the charge.
// Returns null on every rank if one cannot reserve or map it.
std::shared_ptr<const Segment> allocate_per_host(Group& group, size_t bytes,
                                                 std::chrono::steady_clock::time_point deadline);

inline constexpr size_t kFirstPartBytes = 4096;

// Collective. A segment for each rank, which all ranks have mapped: address space of `bytes`, of
// which each rank reserves what it uses of its segment; the first kFirstPartBytes are reserved, and the
// first 16 bytes are not zero. Returns none on every rank if one cannot be made or mapped.
std::vector<Segment> make_sparse_parts(Group& group, size_t bytes,
                                       std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::distributed::shm
