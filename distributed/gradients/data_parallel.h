// Data-parallel training: every rank holds the same model, sees its own samples, and after a
// synchronised backward pass every rank holds the same gradients, averaged over ranks. Same
// defaults and the same bits as Python's DistributedDataParallel. How gradients are averaged is a
// GradientSynchronizer's (distributed/gradients/gradient_synchronizer.h): c10d::Reducer as there, or in place
// where ranks share memory, in the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/gradients/data_parallel_config.h"
#include "distributed/named_tensors.h"
#include "distributed/world.h"

namespace lockstep {

// Sizes of the gradient buckets, in the order in which they are averaged when gradients become
// ready from the last parameter to the first.
std::vector<size_t> expected_bucket_bytes(const NamedTensors& parameters,
                                          const DataParallelConfig& config);

class GradientSynchronizer;

class DataParallel {
 public:
  // Collective. Verifies that parameters agree in number, shape and type, then sends rank 0's
  // parameters and buffers to all. `module` must outlive this. Throws Config when the models
  // differ, naming the first difference.
  DataParallel(World& world, torch::nn::Module& module, const DataParallelConfig& config);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Before each forward pass in training. `synchronize`: whether the backward pass of this forward
  // averages gradients; false while accumulating (Python's no_sync). Collective when `synchronize`.
  void before_forward(bool synchronize);

  // loss.backward(), overlapped with the all-reduce of the gradients when `synchronize` (the same
  // as in before_forward).
  void backward(const at::Tensor& loss, bool synchronize);

  // The same for gradients that a compiled step makes: one per trainable parameter, in their order,
  // not referenced elsewhere. Those of the last parameters are given, each of `remaining_segments`
  // makes those before, in turn. They are added to what there is, and averaged, last parameter
  // first; what is ready while the next segment is at work.
  void add_gradients(std::vector<at::Tensor> gradients, bool synchronize,
                     std::vector<std::function<std::vector<at::Tensor>()>> remaining_segments = {});

  // How long the last synchronised backward waited for gradients of other ranks after its own were
  // ready: the communication that was not hidden.
  std::chrono::duration<double> exposed_wait() const;

  // Collective: sends rank 0's buffers to all (when broadcast_buffers is on), so that every rank
  // evaluates the same model.
  void broadcast_buffers();

  // Clears all gradients, in the way that fits where they live.
  void zero_gradients();

  // The order in which rank 0's gradients became ready in the first step, as names of parameters.
  // Buckets are made of it (distributed/gradients/gradient_buckets.h), and the bits of sums of
  // three ranks and more depend on those. On rank 0, after a synchronised step (two with
  // static_graph); empty with one rank, and where unused parameters are looked for.
  std::vector<std::string> gradient_order() const;

  // From the first step on, averages as a run does that had this order in its first step. Before
  // that step, on every rank with the same order. An order of other parameters, an empty one, and
  // one where buckets do not depend on it are ignored.
  void restore_gradient_order(const std::vector<std::string>& names);

 private:
  World& world_;
  std::vector<at::Tensor> buffers_;  // that are sent before forward passes
  std::unique_ptr<GradientSynchronizer> synchronizer_;
  bool last_was_synchronized_ = true;
};

}  // namespace lockstep
