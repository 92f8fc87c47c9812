// Data-parallel training: every rank holds the same model, sees its own samples, and after a
// synchronised backward pass every rank holds the same gradients, averaged over ranks. Same
// defaults and the same bits as Python's DistributedDataParallel: c10d::Reducer, which does the
// work there, does it here, but where ranks share memory, which averages gradients in place
// (distributed/shared_gradients.h) in the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config_fields.h"
#include "distributed/world.h"

namespace lockstep {

// Values of gradient_compression.
inline constexpr const char *kNoCompression = "none", *kCompressToFp16 = "fp16",
                            *kCompressToBf16 = "bf16";

// Defaults are Python DDP's.
struct DataParallelConfig {
  std::optional<double> bucket_cap_mb;  // MiB; nothing: 25, the first bucket 1
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  std::string gradient_compression = kNoCompression;
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
    "the traffic between hosts, less precise sums",
    one_of({kNoCompression, kCompressToFp16, kCompressToBf16}));
}

// Sizes of the gradient buckets, in the order in which they are averaged when gradients become
// ready from the last parameter to the first.
std::vector<size_t> expected_bucket_bytes(const torch::nn::Module& module,
                                          const DataParallelConfig& config);

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
  // which nobody else holds. Those of the last parameters are given, those before them come from
  // each of `later` in turn. They are added to what there is, and averaged, last parameter first;
  // what is ready while the next of `later` is at work.
  void add_gradients(std::vector<at::Tensor> gradients, bool synchronize,
                     std::vector<std::function<std::vector<at::Tensor>()>> later = {});

  // How long the last synchronised backward waited for gradients of other ranks after its own were
  // ready: the communication that was not hidden.
  std::chrono::duration<double> exposed_wait() const { return exposed_wait_; }

  // Collective: sends rank 0's buffers to all (when broadcast_buffers is on), so that every rank
  // evaluates the same model.
  void broadcast_buffers();

  // Clears all gradients, in the way that fits where they live.
  void zero_gradients();

  // The order in which rank 0's gradients became ready in the first step, as names of parameters.
  // Buckets are made of it (distributed/gradient_buckets.h), and the bits of sums of three ranks
  // and more depend on those. On rank 0, after a synchronised step (two with static_graph); empty
  // with one rank, and where unused parameters are looked for.
  std::vector<std::string> gradient_order() const;

  // From the first step on, averages as a run does that had this order in its first step. Before
  // that step, on every rank with the same order. An order of other parameters, an empty one, and
  // one where buckets do not depend on it are ignored.
  void restore_gradient_order(const std::vector<std::string>& names);

 private:
  struct Synchroniser;
  void make_reducer(const std::vector<int64_t>& order);
  void publish_buckets();
  void average_shared();
  void begin_average(size_t first);
  World& world_;
  DataParallelConfig config_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;  // of the parameters
  std::chrono::duration<double> exposed_wait_{0};
  std::vector<at::Tensor> buffers_;             // none with one rank
  std::unique_ptr<Synchroniser> synchroniser_;  // none with one rank
  std::future<void> under_way_;                 // averaging beside a segment of a backward pass
};

}  // namespace lockstep
