// Memory that each rank of a group has of its own and all of them have mapped: arrays that lie at
// the same place on every rank are reduced where they are, without copies. Made by
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
  // `segments`: of each rank, of one size. `number`: of this buffer in its group.
  SymmetricBuffer(std::vector<Segment> segments, int rank, uint64_t number);

  std::byte* data() const { return of(rank_); }
  std::byte* of(int rank) const { return segments_[static_cast<size_t>(rank)].data(); }
  size_t bytes() const { return segments_[static_cast<size_t>(rank_)].bytes(); }
  bool holds(const std::byte* data, size_t size) const {
    return data >= this->data() && data + size <= this->data() + bytes();
  }

  // A number for `offset`, other than 0, that no other place in a buffer of the group has.
  uint64_t address_of(size_t offset) const { return number_ << kOffsetBits | offset; }

 private:
  static constexpr int kOffsetBits = 44;

  std::vector<Segment> segments_;
  int rank_;
  uint64_t number_;
};

// Those of one group, as long as somebody uses them. Thread: one at a time.
class SymmetricBuffers {
 public:
  // Collective. Null on every rank where one of them cannot have `bytes`, or cannot map another's.
  std::shared_ptr<SymmetricBuffer> make(Group& group, size_t bytes,
                               std::chrono::steady_clock::time_point deadline);

  // The one that holds [data, data + size), or null.
  std::shared_ptr<const SymmetricBuffer> find(const std::byte* data, size_t size);

 private:
  std::vector<std::weak_ptr<const SymmetricBuffer>> symmetric_buffers_;
  uint64_t num_made_ = 0;
};

}  // namespace lockstep::distributed::shm
