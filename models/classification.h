// What models that sort samples into classes have in common: the loss and the accuracy of logits.
#pragma once

#include "lockstep/model.h"

namespace lockstep::models {

// The field `field` as float32: numbers of another precision, such as numpy's float64, are
// converted. Throws Config for integers, whose scale is the user's to say.
at::Tensor float_input(const Batch& batch, const std::string& field);

// `logits` [B, K] of `batch`. With a field "label" (integers [B]) the outputs carry the mean
// cross-entropy as loss, count = B and sums["accuracy"] = how many samples have their greatest
// logit at the label (int64, without gradient).
//
// Throws Config: labels that are not integers [B], or, on the CPU, a label outside [0, K). (A GPU
// reports that by a failed kernel: checking would wait for the device in every step.)
Outputs classification_outputs(const at::Tensor& logits, const Batch& batch);

// "[128, 1, 28, 28]", for messages.
std::string shape_text(const at::Tensor& tensor);

}  // namespace lockstep::models
