// Averages gradients without the buckets that c10d::Reducer copies them into and out of. Behind a
// backward pass of autograd: on CPUs the cores that would move gradients beside it are those that
// compute them. Beside the segments of a compiled one, in a thread of its own, which needs no
// listener.
//
// Note [Where gradients live]: from 32 KiB on, in memory that all ranks have mapped. As soon as
// autograd has made one it is moved there, while it is in the caches; then each rank reduces its
// slice for all. Parameters' gradients are views of that memory, until zero_gradients() takes them
// away. Smaller ones stay where autograd made them and go through the slots of the group, which
// takes one meeting instead of two.
//
// Only files of distributed/ include this.
// The order of sums is that of Python's DistributedDataParallel (Note [Order of sums] in
// distributed/shm/reduction.h), so parameters are grouped as its buckets
// (distributed/gradients/gradient_buckets.h).
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
  void watch();
  void stop_watching();
  void note_order();
  void note_falling_order();
  void stop_noting();
  void arrived(size_t index);
  void lay_out();
  void move_in(size_t index);
  void average();
  void begin_average(size_t first);
  void average_from(size_t first);
  void average_in_symmetric_buffer(size_t end);
  void average_through_slots(size_t end);
  void arrange_by_order();
  [[noreturn]] void refuse(size_t index) const;

  World& world_;
  ShmBackend& backend_;
  BucketCaps caps_;
  std::vector<GradientBucket> buckets_;           // each of one type
  size_t next_bucket_ = 0;                        // to be averaged
  std::vector<int64_t> ready_order_;              // of this rank, in the first step
  std::vector<int64_t> order_;                    // rank 0's; empty until buckets are made of it
  bool is_watching_ = false, is_noting_ = false;  // hooks are set; they note the order
  std::vector<shm::Array> parts_;                 // of one bucket; kept for its memory
  std::chrono::duration<double> exposed_wait_{0};

  std::shared_ptr<shm::SymmetricBuffer> symmetric_;         // none: gradients are small, or there is no memory
  std::vector<at::Tensor> places_;              // of each parameter's gradient, there
  std::vector<shm::Group::Stretch> stretches_;  // of each bucket

  std::future<void> under_way_;  // begin_average()
};

}  // namespace lockstep::distributed
