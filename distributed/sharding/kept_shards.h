// State that is divided between the ranks of a host, in memory that all of them have mapped: it
// outlives a rank that is killed (lockstep launch --on-rank-loss continue).
//
// Note [Two versions]: version N of the state is the one after N updates. Each rank has two areas of
// memory. In the live one are the tensors that the optimizer changes; the saved one has a copy of
// version N while the update to N + 1 is incomplete on some rank. Before an update, a rank first
// notes that its saved area has no version, then copies, then notes N. So, whenever a rank is
// killed, the last version that all ranks have completed is whole: in the saved area if that is
// noted there, otherwise in the live one, whose next update has not begun.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// Thread: the training thread; memory may be freed on any.
class KeptShards {
 public:
  // A tensor, or the part of it that a rank has.
  struct Item {
    std::string list, name;  // as in a checkpoint
    std::string parameter;   // to which it belongs
    int64_t begin = kWhole;  // first element of the part, in the order of memory
    at::Tensor tensor;       // dense
  };
  static constexpr int64_t kWhole =
      -1;  // Item::begin: not divided, the same on all ranks that have it

  // Collective. `numel`: elements of the slices of a rank, the same on all. Requires ranks that share
  // memory. Throws Environment on all ranks when they cannot map it, PeerError.
  static std::shared_ptr<KeptShards> create(World& ranks, int64_t numel);
  ~KeptShards();
  KeptShards(const KeptShards&) = delete;
  KeptShards& operator=(const KeptShards&) = delete;

  // Whether hold() was called with the same tensors, and their memory is still that of this rank.
  bool holds(const NamedTensors& state) const;
  // Moves the memory of the tensors into the live area; the tensors keep their identity and content.
  // Call it before the first update, and in each update after which holds() is false. Throws
  // Environment when memory is insufficient, Config when there is more state than the address space
  // that create() mapped has room for.
  void hold(std::vector<Item> state);

  // Before an update: saves what hold() got, and `weights`, which are the same tensors each time.
  void begin_update(const std::vector<Item>& weights);
  // After an update, when all ranks have completed it.
  void end_update() { ++version_; }

  // What all ranks have of the last version that all have completed: what they hold, and the weights of those
  // whose next update has begun. One-dimensional views, valid as long as this exists. Not
  // collective: call it when the other ranks have ended their update or are dead.
  std::vector<Item> collect() const;

 private:
  class Memory;  // of all ranks

  explicit KeptShards(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  void move(const at::Tensor& tensor);
  void lay_out_copy(const std::vector<Item>& weights);

  std::shared_ptr<Memory> memory_;
  int64_t version_ = 0;
  std::vector<Item> held_;
  std::vector<at::Tensor> saved_, sources_;  // empty: to be laid out
};

}  // namespace lockstep::distributed
