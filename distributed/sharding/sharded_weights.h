// Weights of which each rank keeps a chunk (ZeRO-3, as in FSDP), gathered in units, e.g. the blocks
// of a transformer: before their forward and backward pass, and freed after it. The weights outside
// of units are unit 0, gathered for the whole step. One unit is prefetched while another is
// computed. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <map>
#include <string>
#include <vector>

#include "distributed/sharding/flat_parameters.h"
#include "lockstep/data_parallel.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// Every rank runs the same units in the same order. Thread: the training thread; the backward pass
// of CPU tensors runs on it.
class ShardedWeights {
 public:
  // `flats`: of all parameters, with Copies::Sharded; they outlive this. `names`: of all units.
  ShardedWeights(World& world, const std::vector<std::string>& names,
                 const std::vector<FlatParameters*>& flats);
  ShardedWeights(const ShardedWeights&) = delete;
  ShardedWeights& operator=(const ShardedWeights&) = delete;

  // Collective: gathers what is outside of units. Call before each forward pass.
  void begin_pass();
  // Frees all weights. Call after the backward pass, or after a forward pass without one.
  void end_pass();

  // Collective: call before and after the forward pass of a unit.
  void before_unit(size_t unit);
  void after_unit(size_t unit, const at::Tensor& output);

  // Collective: gathers `units`, starts to gather `next`, and frees all others, except for what is
  // outside of units. Call before each part of a pass without autograd.
  void hold_units(const std::vector<size_t>& units, const std::vector<size_t>& next);

  // The gradients of a unit are complete. Frees its weights, unless frozen ones may still be needed:
  // then they are freed when the backward pass of the next unit begins.
  void gradients_complete(size_t unit);

 private:
  enum class State { Released, Gathering, Gathered };
  struct Unit {
    std::string name;
    std::vector<FlatParameters::Flat*> flats;
    bool is_frozen = false;  // some of it is
    State state = State::Released;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;  // Gathering
  };

  void start(size_t unit);
  void gather(size_t unit);
  void release(size_t unit);
  void before_backward(size_t unit);
  void prefetch_after(size_t unit, int direction);

  World& world_;
  std::vector<Unit> units_;
  // Units in the order of the first forward pass; before it has ended, as they were given.
  std::vector<size_t> order_, first_pass_;
  bool knows_order_ = false;
  std::multimap<size_t, at::DataPtr> free_memory_;  // by bytes, to be used again
};

}  // namespace lockstep::distributed
