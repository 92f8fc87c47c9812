// Loss and error of regression models.
#pragma once

#include "lockstep/model.h"

namespace lockstep::models {

// What the loss averages: the squared error, its absolute value, or Huber's loss, as
// torch.nn.functional.huber_loss.
enum class ErrorOf { Squared, Absolute, Huber };

struct RegressionLoss {
  ErrorOf error = ErrorOf::Squared;
  double delta = 1;  // of Huber's loss
};

// Computes the outputs for the predictions `outputs` [B, K] of `batch`. If the batch has a field
// "label" (floating-point [B, K], or [B] if K is 1), the loss is the mean error over all
// B * K values, like torch.nn.functional.mse_loss, count is B, and the mean of sums["mae"] over
// samples is the mean absolute error.
//
// Throws Config for labels of a different shape or type.
Outputs regression_outputs(const at::Tensor& outputs, const Batch& batch,
                           const RegressionLoss& loss = {});

}  // namespace lockstep::models
