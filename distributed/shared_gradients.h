// Averages gradients where they are: each rank writes its own into shared memory and reads the sum
// back, without the buckets that c10d::Reducer copies them into and out of. It cannot overlap with
// the backward pass, and on CPUs it need not: there the cores that would move the gradients are
// those that compute them. Only files of distributed/ include this.
//
// The order of sums is that of Python's DistributedDataParallel (Note [Order of sums] in
// distributed/shm/reduction.h), so parameters are grouped as its buckets: one bucket in the first
// step, then buckets in the order in which rank 0's gradients became ready in that step.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "distributed/shm_backend.h"

namespace lockstep {

struct GradientBuckets {
  size_t first_cap_bytes, cap_bytes;
};

class SharedGradients {
 public:
  // `names`: of `parameters`, for errors.
  SharedGradients(ShmBackend& backend, std::vector<at::Tensor> parameters,
                  std::vector<std::string> names, const GradientBuckets& buckets);
  ~SharedGradients();
  SharedGradients(const SharedGradients&) = delete;
  SharedGradients& operator=(const SharedGradients&) = delete;

  // Before a backward pass whose gradients are averaged.
  void begin();

  // Instead of begin(), where no autograd was at work: all gradients are there, and count as having
  // become ready from the last parameter to the first.
  void begin_with_all_ready();

  // Collective, after it: every gradient becomes the mean over ranks. Throws Config when a
  // parameter has no gradient.
  void average();

 private:
  using Bucket = std::vector<size_t>;  // numbers of parameters
  void forget_order();
  void arrange_by_order();
  at::Tensor& dense_gradient(size_t index);
  [[noreturn]] void refuse(size_t index) const;

  ShmBackend& backend_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  GradientBuckets limits_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> ready_order_;  // of the first step
  bool is_watching_ = false, is_arranged_ = false;
  std::vector<at::Tensor> gradients_;  // of one bucket; kept for its memory
};

}  // namespace lockstep
