// A c10d backend that forwards to another and records in the rank's progress page when a gradient
// all_reduce starts and finishes, for hang reports and communication times. Only files of
// distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>

#include "core/system/progress_page.h"

namespace lockstep::distributed {

// Offers what c10d::Reducer needs: all_reduce, broadcast and memory for buckets.
class WatchedBackend final : public c10d::Backend {
 public:
  // `progress` outlives this.
  WatchedBackend(c10::intrusive_ptr<c10d::Backend> inner, ProgressPage& progress)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        progress_(progress) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    last_start_ = std::chrono::steady_clock::now();
    progress_.start_bucket();
    auto work = inner_->allreduce(tensors, options);
    work->getFuture()->addCallback([&progress = progress_](auto&) { progress.finish_bucket(); });
    return work;
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return inner_->broadcast(tensors, options);
  }

  bool supportsTensorAlloc(c10::DeviceIndex device) override {
    return inner_->supportsTensorAlloc(device);
  }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return inner_->allocateTensor(size, options);
  }

  // Start of the last all_reduce: the rest of the backward pass is exposed waiting time.
  std::chrono::steady_clock::time_point last_start() const { return last_start_; }

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  ProgressPage& progress_;
  std::chrono::steady_clock::time_point last_start_{};
};

}  // namespace lockstep::distributed
