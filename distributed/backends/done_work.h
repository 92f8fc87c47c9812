// A completed collective of c10d. Only files of distributed/ include this.
#pragma once

#include <ATen/core/ivalue_inl.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <utility>
#include <vector>

namespace lockstep::distributed {

class DoneWork final : public c10d::Work {
 public:
  DoneWork(c10d::OpType type, std::vector<at::Tensor> results)
      : Work(-1, type), results_(std::move(results)) {
    finish();
  }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  std::vector<at::Tensor> results_;
};

}  // namespace lockstep::distributed
