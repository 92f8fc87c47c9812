// Loss and accuracy of classification models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/model.h"

namespace lockstep::models {

// The field `field` as float32; other floating-point types, such as NumPy's float64, are converted.
// Throws Config for integers, because their scale must be specified by the user.
at::Tensor float_input(const Batch& batch, const std::string& field);

// Computes the outputs for `logits` [B, K] of `batch`. If the batch has a field "label" (integers
// [B]), the loss is the mean cross-entropy, count is B, and sums["accuracy"] is the number of
// samples whose largest logit is at the label (int64, without gradient).
//
// Throws Config: labels that are not integers [B], or, on the CPU, a label outside [0, K). (On a
// GPU, the kernel fails: checking would synchronize with the device in every step.)
Outputs classification_outputs(const at::Tensor& logits, const Batch& batch);

// One sample for Model::example_sample(): the field `input` with the shape of one sample, and a label.
Batch example_to_classify(const std::string& input, std::vector<int64_t> shape);

// "[128, 1, 28, 28]", for messages.
std::string shape_text(const at::Tensor& tensor);

}  // namespace lockstep::models
