// Averages gradients with c10d::Reducer, as Python's DistributedDataParallel does: in buckets that
// overlap with the backward pass. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/logger.hpp>

#include "distributed/backends/watched_backend.h"
#include "distributed/gradients/gradient_synchronizer.h"
#include "distributed/gradients/ordered_reducer.h"

namespace lockstep::distributed {

class ReducerGradients final : public GradientSynchronizer {
 public:
  // Collective: ranks that share memory allocate the buckets together.
  static std::unique_ptr<ReducerGradients> create(World& world, NamedTensors parameters,
                                                  const DataParallelConfig& config);

  void before_forward() override;
  int64_t divisor() const override { return world_.world_size(); }
  void backward(const at::Tensor& loss, bool synchronize) override;
  void add_gradients(const std::shared_ptr<GivenGradients>& gradients, bool synchronize) override;
  // Gradients that are views of buckets are zeroed in place.
  void zero_gradients() override;
  std::chrono::duration<double> exposed_wait() const override { return exposed_wait_; }
  // With static_graph known after the second step; with find_unused_parameters alone always empty.
  std::vector<int64_t> order() const override { return reducer_->order(); }
  void restore_order(const std::vector<int64_t>& order) override;

 private:
  ReducerGradients(World& world, NamedTensors parameters, const DataParallelConfig& config);
  // Collective, as create().
  void make_reducer(const std::vector<int64_t>& order);
  void publish_buckets();

  World& world_;
  const DataParallelConfig config_;
  std::chrono::duration<double> exposed_wait_{0};
  // Destroyed in reverse order: the logger references the reducer.
  c10::intrusive_ptr<WatchedBackend> backend_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<OrderedReducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace lockstep::distributed
