// Averages gradients where they are: each rank writes its own into shared memory and reads the sum
// back, without the buckets that c10d::Reducer copies them into and out of. It cannot overlap with
// the backward pass, and on CPUs it need not: there the cores that would move the gradients are
// those that compute them. Only files of distributed/ include this.
//
// The order of sums is that of Python's DistributedDataParallel (Note [Order of sums] in
// distributed/shm/reduction.h), so parameters are grouped as its buckets
// (distributed/gradient_buckets.h).
#pragma once

#include <ATen/core/Tensor.h>

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
  void average_bucket();
  void stop_watching();
  void arrange_by_order();
  at::Tensor& dense_gradient(size_t index);
  [[noreturn]] void refuse(size_t index) const;

  ShmBackend& backend_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  BucketCaps caps_;
  std::vector<GradientBucket> buckets_;
  size_t next_bucket_ = 0;            // to be averaged
  std::vector<int64_t> ready_order_;  // of this rank, in the first step
  std::vector<int64_t> order_;        // rank 0's; empty until buckets are made of it
  bool is_watching_ = false;
  std::vector<at::Tensor> gradients_;  // of one bucket; kept for its memory
};

}  // namespace lockstep
