// Shapes: B samples of the batch, K classes.
#include "models/classification.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep {
namespace {

void verify_labels(const at::Tensor& label, int64_t num_samples, int64_t num_classes) {
  if (label.dim() != 1 || label.size(0) != num_samples || label.scalar_type() != at::kLong)
    throw config_error(fmt::format(
        "the model needs one int64 label per sample: 'label' is {} {}, expected Long [{}]",
        c10::toString(label.scalar_type()), shape_text(label), num_samples));
  if (!label.is_cpu() || num_samples == 0) return;
  const auto* begin = label.const_data_ptr<int64_t>();
  const auto [smallest, greatest] = std::minmax_element(begin, begin + num_samples);
  if (*smallest >= 0 && *greatest < num_classes) return;
  throw config_error(
      fmt::format("the dataset has label {}, but the model has {} classes: labels 0 to {} are "
                  "valid; set model.classes",
                  *smallest < 0 ? *smallest : *greatest, num_classes, num_classes - 1));
}

}  // namespace

Outputs classification_outputs(const at::Tensor& logits_BK, const Batch& batch) {
  Outputs outputs{.loss = {}, .count = logits_BK.size(0), .predictions = logits_BK, .sums = {}};
  const auto has_labels = std::any_of(batch.fields.begin(), batch.fields.end(),
                                      [](const auto& field) { return field.first == "label"; });
  if (!has_labels) return outputs;
  const auto label_B = batch.at("label").contiguous();
  verify_labels(label_B, logits_BK.size(0), logits_BK.size(1));
  outputs.loss = at::cross_entropy_loss(logits_BK, label_B);
  outputs.sums["accuracy"] = logits_BK.detach().argmax(1).eq(label_B).sum();
  return outputs;
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

}  // namespace lockstep
