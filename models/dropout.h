// Dropout as a module, so that train.dropout finds it and changes its probability.
#pragma once

#include <ATen/ops/dropout.h>
#include <torch/nn/modules/dropout.h>

#include <memory>
#include <string>

namespace lockstep::models {

// torch::nn::Dropout, with const access.
struct Dropout final : torch::nn::DropoutImpl {
  explicit Dropout(double probability) : torch::nn::DropoutImpl(probability) {}

  // The probability now: 0 in evaluation.
  double probability() const { return is_training() ? options.p() : 0; }

  // x, with elements dropped in training.
  at::Tensor forward(const at::Tensor& x) const {
    return probability() > 0 ? at::dropout(x, probability(), true) : x;
  }
};

// Registers it as a child of `parent`.
inline std::shared_ptr<Dropout> add_dropout(torch::nn::Module& parent, const std::string& name,
                                            double probability) {
  return parent.register_module(name, std::make_shared<Dropout>(probability));
}

}  // namespace lockstep::models
