// Data-parallel training: every rank has the same model and its own samples, and after a
// synchronized backward pass every rank has the same gradients, averaged over the ranks. Defaults
// and bits are those of Python's DistributedDataParallel.
//
// Example:
//   void train_step(lockstep::World& world, lockstep::Model& model, lockstep::Optimizer& optimizer,
//                   const lockstep::Batch& batch) {
//     static lockstep::DataParallel parallel(world, model, {});
//     parallel.before_forward(true);
//     const auto outputs = model.forward(batch);
//     parallel.backward(outputs.loss, true);
//     {
//       at::NoGradGuard no_grad;
//       optimizer.step(optimizer.base_lr());
//     }
//     parallel.zero_gradients();
//   }
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep {

namespace distributed {
class GradientSynchronizer;
}

enum class GradientCompression { None, Fp16, Bf16 };
constexpr auto choices(GradientCompression) { return std::array{"none", "fp16", "bf16"}; }

// Options; the defaults are those of Python's DistributedDataParallel.
struct DataParallelConfig {
  std::optional<double> bucket_cap_mb;  // MiB; nothing: 25, the first bucket 1
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  GradientCompression gradient_compression = GradientCompression::None;
};

template <class V>
void fields(V& v, DataParallelConfig& c) {
  v("bucket_cap_mb", c.bucket_cap_mb,
    "size of a gradient bucket in MiB (nothing: 25, the first one 1)", above(0), at_most(1 << 20));
  v("find_unused_parameters", c.find_unused_parameters,
    "look for parameters that a step did not use");
  v("static_graph", c.static_graph,
    "promise that every step uses the same parameters in the same way");
  v("gradient_as_bucket_view", c.gradient_as_bucket_view,
    "let gradients live in the buckets (saves one copy)");
  v("broadcast_buffers", c.broadcast_buffers,
    "send buffers (e.g. BatchNorm's) from rank 0 before each forward");
  v("gradient_compression", c.gradient_compression,
    "send gradients as 16-bit floats, as Python's fp16_compress_hook and bf16_compress_hook: half "
    "the traffic between hosts, less precise sums");
}

class DataParallel {
 public:
  // Collective. Checks that parameters agree in number, shape and type, then broadcasts rank 0's
  // parameters and buffers. `module` must outlive this. Throws Config, with the first difference,
  // when the models differ.
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

  // The same for the gradients of a compiled step: of the trainable parameters, in their order, not
  // referenced elsewhere. `gradients` are those of the last parameters; each of
  // `remaining_segments` returns those before, in turn. They are added to existing gradients and
  // averaged, last parameter first, while the next segment runs.
  void add_gradients(std::vector<at::Tensor> gradients, bool synchronize,
                     std::vector<std::function<std::vector<at::Tensor>()>> remaining_segments = {});

  // How long the last synchronized backward pass waited for other ranks after its own gradients
  // were ready: the communication that was not overlapped.
  std::chrono::duration<double> exposed_wait() const;

  // Collective: broadcasts rank 0's buffers (if broadcast_buffers is on), so that every rank
  // evaluates the same model.
  void broadcast_buffers();

  // Sets all gradients to zero, or frees them, depending on where they are stored.
  void zero_gradients();

  // The order in which rank 0's gradients became ready in the first step, as names of parameters.
  // It defines the buckets, on which the bits of sums over three or more ranks depend. On rank 0,
  // after a synchronized step (two with static_graph); empty with one rank and with
  // find_unused_parameters.
  std::vector<std::string> gradient_order() const;

  // Makes the buckets as in a run with that order in its first step. Call it before the first step,
  // on every rank with the same order. An order of other parameters and an empty one are ignored.
  void restore_gradient_order(const std::vector<std::string>& names);

 private:
  World& world_;
  std::vector<at::Tensor> buffers_;  // broadcast before forward passes
  std::unique_ptr<distributed::GradientSynchronizer> synchronizer_;
  bool last_was_synchronized_ = true;
};

}  // namespace lockstep
