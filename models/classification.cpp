// Shapes: B samples of the batch, K classes.
#include "models/classification.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::models {
namespace {

// The labels as int64 [B]; other integer types are converted.
at::Tensor labels_of(const Batch& batch, int64_t num_samples, int64_t num_classes) {
  const auto& stored = batch.at("label");
  const bool is_integer = at::isIntegralType(stored.scalar_type(), /*includeBool=*/true);
  if (stored.dim() != 1 || stored.size(0) != num_samples || !is_integer)
    throw config_error(fmt::format(
        "the model needs one int64 label per sample: 'label' is {} {}, expected Long [{}]{}",
        c10::toString(stored.scalar_type()), shape_text(stored), num_samples,
        is_integer ? "" : "; save integers, or for a table set label_kind: class"));
  const auto label = stored.to(at::kLong).contiguous();
  if (!label.is_cpu() || num_samples == 0) return label;
  const auto* begin = label.const_data_ptr<int64_t>();
  const auto [smallest, greatest] = std::minmax_element(begin, begin + num_samples);
  if (*smallest >= 0 && *greatest < num_classes) return label;
  throw config_error(
      fmt::format("the dataset has label {}, but the model has {} classes: labels 0 to {} are "
                  "valid; set model.classes",
                  *smallest < 0 ? *smallest : *greatest, num_classes, num_classes - 1));
}

// The losses of the samples [B].
at::Tensor class_losses(const at::Tensor& logits_BK, const at::Tensor& label_B,
                        const ClassLoss& loss) {
  const auto weights =
      loss.class_weights.defined() ? std::optional(loss.class_weights) : std::nullopt;
  if (loss.gamma == 0)
    return at::cross_entropy_loss(logits_BK, label_B, weights, at::Reduction::None,
                                  /*ignore_index=*/-100, loss.label_smoothing);
  const auto log_p_B =
      at::log_softmax(logits_BK, 1, at::kFloat).gather(1, label_B.unsqueeze(1)).squeeze(1);
  auto missing_B = 1 - log_p_B.exp();
  if (loss.gamma < 1)
    missing_B = missing_B.clamp_min(1e-7);  // the gradient of a power is infinite at 0
  const auto losses_B = -missing_B.pow(loss.gamma) * log_p_B;
  return weights ? losses_B * weights->index_select(0, label_B) : losses_B;
}

// Where there are no weights, the mean is PyTorch's, to the bit.
at::Tensor class_loss(const at::Tensor& logits_BK, const at::Tensor& label_B,
                      const ClassLoss& loss) {
  const std::optional<at::Tensor> weights =
      loss.class_weights.defined() ? std::optional(loss.class_weights) : std::nullopt;
  if (loss.gamma == 0) {
    const auto reduction = weights ? at::Reduction::Sum : at::Reduction::Mean;
    const auto value = at::cross_entropy_loss(logits_BK, label_B, weights, reduction,
                                              /*ignore_index=*/-100, loss.label_smoothing);
    return weights ? value / static_cast<double>(logits_BK.size(0)) : value;
  }
  return class_losses(logits_BK, label_B, loss).mean();
}

// As class_loss(), of samples that are mixed with others.
at::Tensor mixed_loss(const at::Tensor& logits_BK, const Batch& batch, const at::Tensor& label_B,
                      const ClassLoss& loss) {
  const auto& share_B = batch.at("mix");
  const auto losses_B = share_B * class_losses(logits_BK, label_B, loss) +
                        (1 - share_B) * class_losses(logits_BK, batch.at("mixed_label"), loss);
  return losses_B.mean();
}

void refuse_mixed(const Batch& batch, const char* loss) {
  if (batch.find("mix"))
    throw config_error(std::string("data.mix needs labels that are classes; the loss is ") + loss);
}

// The labels as float32 [B, K].
at::Tensor binary_labels_of(const Batch& batch, const at::Tensor& logits_BK) {
  const auto& stored = batch.at("label");
  const bool is_column =
      stored.dim() == 1 && logits_BK.size(1) == 1 && stored.size(0) == logits_BK.size(0);
  if (!is_column && stored.sizes() != logits_BK.sizes())
    throw config_error(fmt::format(
        "with loss: binary the model needs a label of 0 or 1 for each class: 'label' is {} {}, "
        "expected {}",
        c10::toString(stored.scalar_type()), shape_text(stored), shape_text(logits_BK)));
  const auto label = stored.to(at::kFloat).view_as(logits_BK);
  if (label.is_cpu() && !label.ge(0).logical_and(label.le(1)).all().item<bool>())
    throw config_error("with loss: binary labels must be 0 or 1, or a probability between");
  return label;
}

}  // namespace

Outputs classification_outputs(const at::Tensor& logits_BK, const Batch& batch,
                               const ClassLoss& loss) {
  Outputs outputs{.loss = {}, .count = logits_BK.size(0), .predictions = logits_BK, .sums = {}};
  if (!batch.find("label")) return outputs;
  const auto label_B = labels_of(batch, logits_BK.size(0), logits_BK.size(1));
  outputs.loss = batch.find("mix") ? mixed_loss(logits_BK, batch, label_B, loss)
                                   : class_loss(logits_BK, label_B, loss);
  outputs.sums["accuracy"] = logits_BK.detach().argmax(1).eq(label_B).sum();
  return outputs;
}

Outputs binary_outputs(const at::Tensor& logits_BK, const Batch& batch,
                       const at::Tensor& class_weights) {
  Outputs outputs{.loss = {}, .count = logits_BK.size(0), .predictions = logits_BK, .sums = {}};
  if (!batch.find("label")) return outputs;
  refuse_mixed(batch, "binary");
  const auto label_BK = binary_labels_of(batch, logits_BK);
  outputs.loss = at::binary_cross_entropy_with_logits(
      logits_BK.to(at::kFloat), label_BK,
      class_weights.defined() ? std::optional(class_weights) : std::nullopt);
  const auto is_right_BK = logits_BK.detach().gt(0).eq(label_BK.gt(0.5));
  outputs.sums["accuracy"] = is_right_BK.all(1).sum();
  return outputs;
}

at::Tensor float_input(const Batch& batch, const std::string& field) {
  const auto& stored = batch.at(field);
  if (stored.is_floating_point()) return stored.to(at::kFloat);
  throw config_error(fmt::format(
      "the model takes float32 numbers, but '{}' is {} {}; convert it in data.train and data.eval: "
      "fields: {{{}: {{dtype: float32{}}}}}, and name the other fields there too, e.g. label: {{}}",
      field, c10::toString(stored.scalar_type()), shape_text(stored), field,
      stored.scalar_type() == at::kByte ? ", divide_by: 255" : ""));
}

Batch example_to_classify(const std::string& input, std::vector<int64_t> shape,
                          const at::Tensor& label) {
  shape.insert(shape.begin(), 1);
  return {.fields = {{input, at::zeros(shape)}, {"label", label}},
          .indices = at::zeros({1}, at::kLong)};
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

}  // namespace lockstep::models
