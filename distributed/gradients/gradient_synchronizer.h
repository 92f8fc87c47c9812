// Interface for averaging gradients over all ranks. DataParallel chooses the implementation and
// calls it. Only files of distributed/ include this.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "distributed/gradients/gradient_source.h"
#include "lockstep/data_parallel.h"
#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

struct Sharding;

class GradientSynchronizer {
 public:
  explicit GradientSynchronizer(NamedTensors parameters) : parameters_(std::move(parameters)) {}
  virtual ~GradientSynchronizer() = default;
  GradientSynchronizer(const GradientSynchronizer&) = delete;
  GradientSynchronizer& operator=(const GradientSynchronizer&) = delete;

  // Parameters whose gradients are averaged.
  const NamedTensors& parameters() const { return parameters_; }

  // Collective, before a forward pass whose backward pass synchronizes.
  virtual void before_forward() {}

  // Runs loss.backward(). Collective if `synchronize`: gradients are means on return.
  virtual void backward(const at::Tensor& loss, bool synchronize) = 0;

  // Like backward(), but accumulates the given gradients, segment by segment.
  virtual void add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                             bool synchronize) = 0;

  // Clears all gradients. The default resets them to undefined tensors.
  virtual void zero_gradients();

  // What a synchronized pass divides the gradients of each rank by, before it adds them: their
  // number, or 1 if the caller passes gradients that are divided (distributed.virtual_shards).
  virtual int64_t divisor() const = 0;

  // How long the last synchronized pass waited for other ranks after its own gradients were ready.
  virtual std::chrono::duration<double> exposed_wait() const {
    return std::chrono::duration<double>::zero();
  }

  // Indices of parameters in bucket order. Empty before the first step, and where results do not
  // depend on it.
  virtual std::vector<int64_t> order() const { return {}; }

  // Before the first step: uses this order, a permutation of parameter indices, for the buckets.
  virtual void restore_order(const std::vector<int64_t>& /*order*/) {}

 private:
  NamedTensors parameters_;
};

// Collective. LocalGradients with one rank; with sharded gradients PerHostGradients where ranks
// share memory and with a hierarchical backend, else ExchangedGradients; otherwise
// SharedMemoryGradients where ranks share memory and no option needs a c10d::Reducer, else
// ReducerGradients. `sharding`: null without.
std::unique_ptr<GradientSynchronizer> make_gradient_synchronizer(World& world,
                                                                 NamedTensors parameters,
                                                                 const DataParallelConfig& config,
                                                                 Sharding* sharding = nullptr);

}  // namespace lockstep::distributed
