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

// Variants of the cross-entropy -log p of the label's probability p.
struct ClassLoss {
  at::Tensor class_weights;    // [K], on the device of the logits; undefined: 1
  double label_smoothing = 0;  // as in PyTorch
  double gamma = 0;  // focal loss (Lin et al., 2017): -(1 - p)^gamma log p; not with smoothing
};

// Computes the outputs for `logits` [B, K] of `batch`. If the batch has a field "label" (integers
// [B]), the loss is the mean cross-entropy, count is B, and sums["accuracy"] is the number of
// samples whose largest logit is at the label (int64, without gradient). With class weights, the
// weighted losses are divided by B, not by the sum of the weights as in PyTorch: so the gradient does
// not depend on how samples are divided among ranks.
//
// With the fields "mix" float [B] and "mixed_label" int64 [B], the loss of a sample is mix times that
// of its label plus 1 - mix times that of the other one.
//
// Throws Config: labels that are not integers [B], or, on the CPU, a label outside [0, K). (On a
// GPU, the kernel fails: checking would synchronize with the device in every step.)
Outputs classification_outputs(const at::Tensor& logits, const Batch& batch,
                               const ClassLoss& loss = {});

// As above, for several classes per sample: "label" is [B, K], or [B] if K is 1, with 0 or 1 for each
// class. The loss is the mean over all B * K binary cross-entropies, like
// torch.nn.functional.binary_cross_entropy_with_logits with `class_weights` as its weight; a sample
// is accurate if all of its classes are. On the CPU, throws Config for labels outside [0, 1].
Outputs binary_outputs(const at::Tensor& logits, const Batch& batch,
                       const at::Tensor& class_weights);

// One sample for Model::example_sample(): the field `input` with the shape of one sample, and
// `label` [1, ...].
Batch example_to_classify(const std::string& input, std::vector<int64_t> shape,
                          const at::Tensor& label);

// "[128, 1, 28, 28]", for messages.
std::string shape_text(const at::Tensor& tensor);

}  // namespace lockstep::models
