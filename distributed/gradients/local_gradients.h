// Gradient synchronizer of a single rank: local gradients are already the mean. Only files of
// distributed/ include this.
#pragma once

#include "distributed/gradients/gradient_synchronizer.h"

namespace lockstep::distributed {

class LocalGradients final : public GradientSynchronizer {
 public:
  using GradientSynchronizer::GradientSynchronizer;

  int64_t divisor() const override { return 1; }

  void backward(const at::Tensor& loss, bool /*synchronize*/) override { loss.backward(); }
  void add_gradients(const std::shared_ptr<GivenGradients>& gradients,
                     bool /*synchronize*/) override {
    add_to_parameters(parameters(), *gradients);
  }
};

}  // namespace lockstep::distributed
