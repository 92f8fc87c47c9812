#include "models/regression.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/error.h"
#include "models/classification.h"

namespace lockstep::models {
namespace {

at::Tensor mean_error(const at::Tensor& outputs, const at::Tensor& label,
                      const RegressionLoss& loss) {
  switch (loss.error) {
    case ErrorOf::Squared: return at::mse_loss(outputs, label);
    case ErrorOf::Absolute: return at::l1_loss(outputs, label);
    case ErrorOf::Huber: return at::huber_loss(outputs, label, at::Reduction::Mean, loss.delta);
  }
  return {};
}

}  // namespace

Outputs regression_outputs(const at::Tensor& outputs_BK, const Batch& batch,
                           const RegressionLoss& loss) {
  Outputs outputs{.loss = {}, .count = outputs_BK.size(0), .predictions = outputs_BK, .sums = {}};
  const auto* label = batch.find("label");
  if (!label) return outputs;
  auto label_BK = *label;
  const bool is_column = label_BK.dim() == 1 && outputs_BK.size(1) == 1;
  if (!label_BK.is_floating_point() ||
      (is_column ? label_BK.size(0) != outputs_BK.size(0) : label_BK.sizes() != outputs_BK.sizes()))
    throw config_error(fmt::format(
        "for regression the model needs floating-point labels: 'label' is {} {}, expected Float "
        "{}; for integers in a table set label_kind: value, for other shapes set model.outputs",
        c10::toString(label_BK.scalar_type()), shape_text(label_BK), shape_text(outputs_BK)));
  label_BK = label_BK.to(at::kFloat).view_as(outputs_BK);
  outputs.loss = mean_error(outputs_BK, label_BK, loss);
  outputs.sums["mae"] = (outputs_BK.detach() - label_BK).abs().mean(1).sum();
  return outputs;
}

}  // namespace lockstep::models
