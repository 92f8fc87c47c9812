// Averages gradients so that each rank has those of its slices only (ZeRO-2, ZeRO-3 over a
// network). While the backward pass runs, each rank sends the owners their slices of a unit whose
// gradients are ready, an all-to-all with the traffic of a reduce-scatter; the owner adds what it
// receives in the order of the all-reduce, with the same bits on CPUs. A unit's own gradients are
// freed then.
//
// After a synchronized pass, the parameters have no gradients; FlatParameters::slice_gradient() has
// the averages. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <optional>

#include "distributed/gradients/ordered_gradients.h"
#include "distributed/sharding/flat_parameters.h"
#include "distributed/sharding/sharded_weights.h"

namespace lockstep::distributed {

class ExchangedGradients final : public OrderedGradients {
 public:
  // As OrderedGradients(). `flat`: of `parameters`, with gradients. `weights`: null if each rank
  // has all weights. They outlive this.
  ExchangedGradients(World& world, FlatParameters& flat, ShardedWeights* weights,
                     const DataParallelConfig& config);

  void add_gradients(const std::shared_ptr<GivenGradients>& gradients, bool synchronize) override;

 private:
  // An exchange that has started: one at a time.
  struct Pending {
    FlatParameters::Flat* flat = nullptr;
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor sent, received;  // [world size * chunk]
  };

  void on_gradient_ready(size_t index) override;
  void begin_pass(bool synchronize) override;
  void finish_pass() override;
  void exchange_ready_units();
  void start_exchange(FlatParameters::Flat& flat);
  void finish_exchange();
  void average(const FlatParameters::Flat& flat, const at::Tensor& received) const;

  FlatParameters& flat_;
  ShardedWeights* weights_;
  std::vector<size_t> unit_of_;     // of each parameter
  std::vector<size_t> unit_sizes_;  // parameters of each unit

  bool is_synchronizing_ = false;
  std::vector<size_t> num_missing_;  // gradients of each unit, in this pass
  size_t num_exchanged_ = 0;         // units, from the last to the first
  std::optional<Pending> pending_;
  at::Tensor send_buffer_, receive_buffer_;  // bytes, for the largest exchange
  std::chrono::duration<double> waited_{0};  // in this pass
};

}  // namespace lockstep::distributed
