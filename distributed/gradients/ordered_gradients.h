// Base class of synchronizers that add gradients themselves, without c10d::Reducer. Records the
// order in which gradients become ready in the first step, which determines the buckets and thus
// the order of sums (Note [Order of sums] in distributed/shm/reduction.h). Only files of
// distributed/ include this.
#pragma once

#include "distributed/backends/shm_backend.h"
#include "distributed/gradients/gradient_buckets.h"
#include "distributed/gradients/gradient_synchronizer.h"
#include "distributed/shm/reduction.h"

namespace lockstep::distributed {

class OrderedGradients : public GradientSynchronizer {
 public:
  // Requires: floating-point parameters.
  OrderedGradients(World& world, NamedTensors parameters, const DataParallelConfig& config);
  ~OrderedGradients() override;

  // Throws Config when a parameter has no gradient.
  void backward(const at::Tensor& loss, bool synchronize) final;
  std::chrono::duration<double> exposed_wait() const override { return exposed_wait_; }
  int64_t divisor() const final { return divisor_; }
  std::vector<int64_t> order() const final { return order_; }
  void restore_order(const std::vector<int64_t>& order) override;

 protected:
  virtual void begin_pass(bool /*synchronize*/) {}
  virtual void finish_pass() = 0;  // of a synchronized pass
  // Called when autograd has accumulated the gradient of a parameter, if hooks are registered.
  virtual void on_gradient_ready(size_t index) = 0;
  // The buckets have changed.
  virtual void layout_buckets() {}

  // Where the gradient of a parameter is in its bucket, in elements.
  struct Place {
    size_t offset = 0, bucket_size = 0;
  };

  World& world() const { return world_; }
  ShmBackend& backend() const;  // of world().host(); requires ranks that share memory
  const BucketCaps& caps() const { return caps_; }
  shm::Averaging averaging() const { return {1.0 / static_cast<double>(divisor_), sum_kind_}; }
  const at::Tensor& parameter(size_t index) const { return parameters()[index].second; }
  const std::vector<GradientBucket>& buckets() const { return buckets_; }  // each of one type
  const Place& place(size_t index) const { return places_[index]; }
  void set_exposed_wait(std::chrono::duration<double> wait) { exposed_wait_ = wait; }

  // From now on, on_gradient_ready() is called in every backward pass, else only while recording.
  void keep_hooks();

  // Records the order in the first synchronized autograd backward pass.
  void record_ready_order();

  // For a first step without autograd: the order is from the last parameter to the first.
  void set_reverse_ready_order();

  // Collective, at the end of a synchronized pass: the first time, rebuilds the buckets in rank 0's
  // order.
  void update_buckets();

  [[noreturn]] void throw_missing_gradient(size_t index) const;

 private:
  void set_buckets(std::vector<GradientBucket> buckets);
  void register_hooks();
  void remove_hooks();
  void stop_recording_order();

  World& world_;
  BucketCaps caps_;
  int64_t divisor_;
  shm::SumKind sum_kind_;
  std::vector<GradientBucket> buckets_;
  std::vector<Place> places_;         // of each parameter
  std::vector<int64_t> ready_order_;  // of this rank, in the first step
  std::vector<int64_t> order_;        // rank 0's; empty until the buckets are rebuilt
  bool has_hooks_ = false, keeps_hooks_ = false, is_recording_order_ = false;
  std::chrono::duration<double> exposed_wait_{0};
};

}  // namespace lockstep::distributed
