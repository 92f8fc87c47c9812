// Data-parallel training. Every rank has a replica of the model and its own samples; a synchronized
// backward pass averages the gradients over all ranks. Defaults and results match Python's
// DistributedDataParallel bit for bit.
//
// Example:
//   void train_step(lockstep::World& world, lockstep::Model& model, lockstep::Optimizer& optimizer,
//                   const lockstep::Batch& batch) {
//     static const auto parallel = lockstep::DataParallel::create(world, model, {});
//     parallel->before_forward(true);
//     const auto outputs = model.forward(batch);
//     parallel->backward(outputs.loss, true);
//     {
//       at::NoGradGuard no_grad;
//       optimizer.step(optimizer.base_lr());
//     }
//     parallel->zero_gradients();
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
class PartSums;
struct Sharding;
}  // namespace distributed

// What is sharded across ranks: optimizer state (ZeRO-1), also averaged gradients (ZeRO-2), also
// weights (ZeRO-3). Auto: chosen before training starts.
enum class ShardStrategy { None, Optimizer, Gradients, Full, Auto };
constexpr auto choices(ShardStrategy) {
  return std::array{"none", "optimizer", "gradients", "full", "auto"};
}

enum class GradientCompression { None, Fp16, Bf16 };
constexpr auto choices(GradientCompression) { return std::array{"none", "fp16", "bf16"}; }

// The same options and defaults as Python's DistributedDataParallel.
struct DataParallelConfig {
  std::optional<double> bucket_cap_mb;  // MiB; nullopt: 1 for the first bucket, then 25
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  GradientCompression gradient_compression = GradientCompression::None;
  ShardStrategy shard = ShardStrategy::None;
  std::optional<int64_t> virtual_shards;  // see DataParallel::end_part()
};

template <class V>
void fields(V& v, DataParallelConfig& c) {
  v("bucket_cap_mb", c.bucket_cap_mb,
    "size of a gradient bucket in MiB (default: 1 for the first bucket, then 25)", above(0),
    at_most(1 << 20));
  v("find_unused_parameters", c.find_unused_parameters, "find parameters that a step did not use");
  v("static_graph", c.static_graph,
    "assert that every step uses the same parameters in the same way");
  v("gradient_as_bucket_view", c.gradient_as_bucket_view,
    "store gradients in the buckets (saves one copy)");
  v("broadcast_buffers", c.broadcast_buffers,
    "broadcast buffers (e.g. of BatchNorm) from rank 0 before each forward pass");
  v("gradient_compression", c.gradient_compression,
    "send gradients as 16-bit floats, like Python's fp16_compress_hook and bf16_compress_hook: "
    "half the traffic between hosts, less precise sums");
  v("shard", c.shard,
    "state to shard across ranks, with bit-identical results: optimizer: the optimizer's state "
    "(ZeRO-1); gradients: also averaged gradients (ZeRO-2); full: also weights (ZeRO-3, FSDP), "
    "which "
    "ranks of one host share in memory and others gather block by block; auto: full on CPUs of one "
    "host, optimizer elsewhere, none if the optimizer cannot be sharded");
  v("virtual_shards", c.virtual_shards,
    "train as if on this many ranks, with bits that do not depend on the real number of ranks: "
    "each global batch is divided into this many parts, whose gradients are added in a fixed "
    "order; "
    "both numbers are powers of two",
    at_least(1), at_most(1024));
}

// A part of a model, e.g. a layer of a transformer, whose weights are gathered together with
// ShardStrategy::Full on ranks that do not share memory.
struct ShardUnit {
  std::string name;
  torch::nn::Module* module = nullptr;
};

class DataParallel {
 public:
  // Collective. Verifies that all ranks have the same number, shapes and types of parameters, then
  // broadcasts rank 0's parameters and buffers. `module` must outlive this object. Throws Config,
  // naming the first difference, when the models differ, and when config.shard is not possible.
  // `units`: disjoint; call before_unit() and after_unit() around their forward passes, which run
  // in the same order on all ranks. `has_values`: false, with ShardStrategy::Full: the parameters
  // have no values yet; the caller sets them with sharding()->set_weight().
  static std::unique_ptr<DataParallel> create(World& world, torch::nn::Module& module,
                                              const DataParallelConfig& config,
                                              const std::vector<ShardUnit>& units = {},
                                              bool has_values = true);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Call before each forward pass in training. `synchronize`: whether the backward pass that
  // follows averages gradients; false while accumulating (Python's no_sync). Collective if
  // `synchronize`.
  void before_forward(bool synchronize);

  // Runs loss.backward(), overlapped with the all-reduce of the gradients if `synchronize`, which
  // must have the same value as in before_forward().
  void backward(const at::Tensor& loss, bool synchronize);

  // Replaces backward() for a compiled step. `gradients`: of the last trainable parameters, in
  // parameter order, not referenced elsewhere. Each of `remaining_segments` returns the gradients
  // of the parameters before those. All are added to existing gradients; the average of one
  // segment, last parameter first, overlaps with the computation of the next. Throws Config for
  // gradients of another number, shape, type or device than the parameters.
  void add_gradients(std::vector<at::Tensor> gradients, bool synchronize,
                     std::vector<std::function<std::vector<at::Tensor>()>> remaining_segments = {});

  // With virtual_shards: ends a part of a step, after its last backward pass; none of the passes of the step synchronizes. Takes the gradients of the part;
  // after the rank's last part (`is_last`), sets the parameters' gradients to the mean over all
  // parts of all ranks, added in an order that does not depend on the number of ranks. Collective if
  // `is_last`. Throws Config for a parameter without a gradient.
  void end_part(bool is_last);

  // Communication time of the last synchronized backward pass that was not overlapped: the wait for
  // other ranks after the local gradients were ready.
  std::chrono::duration<double> exposed_wait() const;

  // Collective. Broadcasts rank 0's buffers if the option broadcast_buffers is set, so that every
  // rank evaluates the same model.
  void broadcast_buffers();

  // Zeroes or frees all gradients, depending on where they are stored.
  void zero_gradients();

  // How the parameters are divided between ranks; null: not at all. With sharding, each rank
  // updates its slices only, then publishes them (distributed/sharding/shard_strategy.h).
  distributed::Sharding* sharding() const { return sharding_.get(); }

  // Whether weights are gathered unit by unit: forward passes are collective then, in evaluations
  // too. Call gather_weights() before and release_weights() after those of an evaluation. Otherwise
  // these functions have no effect. Collective, except for release_weights(). `unit`: an index of
  // `units`. hold_units() replaces before_unit() and after_unit() in passes without autograd: it
  // gathers `units`, starts to gather `next`, and frees all others.
  bool gathers_weights() const;
  void gather_weights();
  void release_weights();
  void before_unit(size_t unit);
  void after_unit(size_t unit, const at::Tensor& output);
  void hold_units(const std::vector<size_t>& units, const std::vector<size_t>& next);

  // Parameter names in the order in which rank 0's gradients became ready in the first step. The
  // order determines the buckets and thus, on three or more ranks, the rounding of sums. Valid on
  // rank 0 after one synchronized step (two with static_graph). Empty with one rank or with
  // find_unused_parameters.
  std::vector<std::string> gradient_order() const;

  // Builds the buckets for that order. Call before the first step, with the same order on every
  // rank. An empty order or one of other parameters is ignored.
  void restore_gradient_order(const std::vector<std::string>& names);

 private:
  DataParallel(World& world, const DataParallelConfig& config);
  void broadcast_model(torch::nn::Module& module, const DataParallelConfig& config);

  World& world_;
  const int64_t virtual_shards_;  // 0: none
  std::unique_ptr<distributed::PartSums> part_sums_;
  std::vector<at::Tensor> buffers_;                  // broadcast before forward passes
  std::unique_ptr<distributed::Sharding> sharding_;  // null: not sharded
  std::unique_ptr<distributed::GradientSynchronizer> synchronizer_;
  bool last_was_synchronized_ = true;
};

}  // namespace lockstep
