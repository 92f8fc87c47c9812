// Averages gradients in shared memory, without c10d::Reducer's copies into and out of buckets. With
// autograd it runs after the backward pass, because on CPUs the cores that would move gradients are
// those that compute them; with a compiled backward pass, on a separate thread while the next
// segment is computed.
//
// Note [Where gradients live]: models with 32 KiB of gradients or more use a symmetric buffer. A
// post-accumulate hook moves each gradient there while it is in the caches; then each rank reduces
// its slice for all. Parameters' gradients are views of the buffer until zero_gradients() resets
// them. Smaller models keep gradients where autograd put them and reduce through the slots of the
// group, which takes one barrier instead of two.
//
// The order of sums is that of Python's DistributedDataParallel (Note [Order of sums] in
// distributed/shm/reduction.h), so parameters are grouped as its buckets
// (distributed/gradients/gradient_buckets.h). Only files of distributed/ include this.
#pragma once

#include <future>

#include "distributed/backends/shm_backend.h"
#include "distributed/gradients/gradient_buckets.h"
#include "distributed/gradients/gradient_synchronizer.h"

namespace lockstep::distributed {

class SharedMemoryGradients final : public GradientSynchronizer {
 public:
  // Requires: a world that shares memory, floating-point parameters on the CPU.
  SharedMemoryGradients(World& world, NamedTensors parameters, const BucketCaps& caps);
  ~SharedMemoryGradients() override;

  // Throws Config when a parameter has no gradient.
  void backward(const at::Tensor& loss, bool synchronize) override;
  void add_gradients(const std::shared_ptr<GivenGradients>& gradients, bool synchronize) override;
  std::chrono::duration<double> exposed_wait() const override { return exposed_wait_; }
  std::vector<int64_t> order() const override { return order_; }
  void restore_order(const std::vector<int64_t>& order) override;

 private:
  const at::Tensor& parameter(size_t index) const { return parameters()[index].second; }
  void register_hooks();
  void remove_hooks();
  void record_ready_order();
  void set_reverse_ready_order();
  void stop_recording_order();
  void on_gradient_ready(size_t index);
  void layout_buckets();
  void move_to_buffer(size_t index);
  void average();
  void start_average(size_t first);
  void average_from(size_t first);
  void average_in_symmetric_buffer(size_t end);
  void average_through_slots(size_t end);
  void rebuild_buckets();
  [[noreturn]] void throw_missing_gradient(size_t index) const;

  World& world_;
  ShmBackend& backend_;
  BucketCaps caps_;
  std::vector<GradientBucket> buckets_;  // each of one type
  size_t next_bucket_ = 0;               // the first one that is not averaged yet
  std::vector<int64_t> ready_order_;     // of this rank, in the first step
  std::vector<int64_t> order_;           // rank 0's; empty until the buckets are rebuilt
  bool has_hooks_ = false, is_recording_order_ = false;
  std::vector<shm::Array> parts_;  // of one bucket; a member to reuse its memory
  std::chrono::duration<double> exposed_wait_{0};

  std::shared_ptr<shm::SymmetricBuffer> buffer_;  // null: small gradients, or allocation failed
  std::vector<at::Tensor> gradient_views_;        // into the buffer, one per parameter
  std::vector<shm::Group::BufferRange> bucket_ranges_;

  std::future<void> pending_average_;  // of start_average()
};

}  // namespace lockstep::distributed
