// What models that sort samples into classes have in common: the loss and the accuracy of logits.
#pragma once

#include "models/model.h"

namespace lockstep {

// `logits` [B, K] of `batch`. With a field "label" (int64 [B]) the outputs carry the mean
// cross-entropy as loss, count = B and sums["accuracy"] = how many samples have their greatest
// logit at the label (int64, without gradient).
//
// Throws Config: labels that are not int64 [B], or, on the CPU, a label outside [0, K). (A GPU
// reports that by a failed kernel: checking would wait for the device in every step.)
Outputs classification_outputs(const at::Tensor& logits, const Batch& batch);

// "[128, 1, 28, 28]", for messages.
std::string shape_text(const at::Tensor& tensor);

}  // namespace lockstep
