// What models that predict values have in common: the loss and the error of their outputs.
#pragma once

#include "lockstep/model.h"

namespace lockstep::models {

// `outputs` [B, K] of `batch`. With a field "label" (floating-point [B, K], or [B] where K is 1)
// the outputs carry the mean squared error over all B * K values as loss, as Python's
// torch.nn.functional.mse_loss, count = B and sums["mae"], whose mean over samples is the mean
// absolute error.
//
// Throws Config: labels of another shape or type.
Outputs regression_outputs(const at::Tensor& outputs, const Batch& batch);

}  // namespace lockstep::models
