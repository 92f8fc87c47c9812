// A collective of c10d that another thread completes. Only files of distributed/ include this.
#pragma once

#include <ATen/core/ivalue_inl.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <exception>
#include <utility>
#include <vector>

namespace lockstep::distributed {

// Thread: any.
class PendingWork final : public c10d::Work {
 public:
  PendingWork(c10d::OpType type, std::vector<at::Tensor> results)
      : Work(-1, type),
        results_(std::move(results)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // `error`: null: none. Only the first call has an effect.
  void complete(const std::exception_ptr& error) {
    if (is_complete_.exchange(true)) return;
    finish(error);
    if (error)
      future_->setError(error);
    else
      future_->markCompleted(c10::IValue(results_));
  }

 private:
  std::atomic<bool> is_complete_ = false;
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::distributed
