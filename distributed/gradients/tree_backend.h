// A c10d backend that adds in a balanced binary tree over the ranks (SumKind::Tree), for gradients of
// virtual shards on ranks that do not share memory: Gloo adds in the order of a ring. Only files of
// distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <vector>

namespace lockstep::distributed {

// Offers what c10d::Reducer needs. An all_reduce is an all-to-all, after which each rank adds an equal
// share, and an all-gather: the traffic of a ring. It is complete when its call returns, so it does
// not overlap with the backward pass.
class TreeBackend final : public c10d::Backend {
 public:
  // `inner`: sends and receives; of a power of two of ranks on CPUs.
  explicit TreeBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }

  // Sum of one contiguous floating-point tensor.
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return inner_->broadcast(tensors, options);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
};

}  // namespace lockstep::distributed
