// Averages gradients without the buckets that c10d::Reducer copies them into and out of. Behind a
// backward pass of autograd: on CPUs the cores that would move gradients beside it are those that
// compute them. Beside the segments of a compiled one (average_from()), which need no listener.
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
// (distributed/gradient_buckets.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "distributed/gradient_buckets.h"
#include "distributed/shm_backend.h"

namespace lockstep {

class SharedGradients {
 public:
  // `names`: of `parameters`, for errors.
  SharedGradients(ShmBackend& backend, std::vector<at::Tensor> parameters,
                  std::vector<std::string> names, const BucketCaps& caps);
  ~SharedGradients();
  SharedGradients(const SharedGradients&) = delete;
  SharedGradients& operator=(const SharedGradients&) = delete;

  // Before a backward pass whose gradients are averaged.
  void begin();

  // Instead of begin(), where no autograd was at work: all gradients are there, and count as having
  // become ready from the last parameter to the first.
  void begin_with_all_ready();

  // The order that the buckets were made of; empty before the first step.
  const std::vector<int64_t>& order() const { return order_; }

  // Buckets as after a first step that had this order. Before the first step.
  void restore_order(const std::vector<int64_t>& order);

  // Collective, after that pass: every gradient becomes the mean over ranks, but those that are
  // already. Throws Config when a parameter has no gradient.
  void average();

  // Collective, during that pass: gradients of the parameters from `first` on are there, and become
  // the mean as far as whole buckets are. May run beside what makes the others.
  void average_from(size_t first);

 private:
  void watch();
  void stop_noting();
  void arrived(size_t index);
  void lay_out();
  void move_in(size_t index);
  void average_in_region(size_t end);
  void average_through_slots(size_t end);
  void arrange_by_order();
  at::Tensor& dense_gradient(size_t index);
  [[noreturn]] void refuse(size_t index) const;

  ShmBackend& backend_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  BucketCaps caps_;
  std::vector<GradientBucket> buckets_;
  size_t next_bucket_ = 0;                        // to be averaged
  std::vector<int64_t> ready_order_;              // of this rank, in the first step
  std::vector<int64_t> order_;                    // rank 0's; empty until buckets are made of it
  bool is_watching_ = false, is_noting_ = false;  // hooks are set; they note the order
  std::vector<at::Tensor> gradients_;             // of one bucket; kept for its memory

  std::shared_ptr<shm::Region> region_;         // none: gradients are small, or there is no memory
  std::vector<at::Tensor> places_;              // of each parameter's gradient, there
  std::vector<shm::Group::Stretch> stretches_;  // of each bucket
};

}  // namespace lockstep
