#include "models/loss.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/error.h"
#include "models/classification.h"
#include "models/regression.h"

namespace lockstep {

models::LossConfig ConfigValue<models::LossConfig>::read(const ConfigNode& node,
                                                         const std::string& path) {
  if (node.kind == ConfigNode::Kind::Scalar) return ConfigValue<models::LossName>::read(node, path);
  if (node.kind != ConfigNode::Kind::Map)
    throw bad_value(node, path, "a name such as cross_entropy, or a map such as {name: focal}");
  models::LossConfig config;
  read_fields(node, path, config.values);
  return config;
}

Json ConfigValue<models::LossConfig>::dump(const models::LossConfig& config) {
  if (config.values == models::LossFields{.name = config.values.name})
    return name_of(config.values.name);
  return ConfigDumper::dump(config.values);
}

Json ConfigValue<models::LossConfig>::schema() {
  return {{"anyOf", Json::array({ConfigValue<models::LossName>::schema(),
                                 ConfigDescriber::describe(models::LossFields{})})}};
}

}  // namespace lockstep

namespace lockstep::models {

LabelLoss::LabelLoss(const LossConfig& config, int64_t outputs, const std::string& model)
    : config_(config.values), outputs_(outputs) {
  if (is_classification(config_.name) && outputs < 2)
    throw config_error(
        fmt::format("model {}: loss {} needs at least 2 classes; binary, mse, l1 and huber do not",
                    model, name_of(config_.name)));
  const auto& weights = config_.class_weights;
  if (weights.empty()) return;
  if (std::ssize(weights) != outputs)
    throw config_error(fmt::format("model {}: loss.class_weights has {} values for {} classes",
                                   model, weights.size(), outputs));
  weights_ = at::tensor(weights, at::kFloat);
}

at::Tensor LabelLoss::weights_on(at::Device device) const {
  if (weights_.defined() && weights_.device() != device) {
    const at::InferenceMode normal(false);  // kept for training, also if an evaluation comes first
    weights_ = weights_.to(device);
  }
  return weights_;
}

Outputs LabelLoss::operator()(const at::Tensor& outputs, const Batch& batch) const {
  switch (config_.name) {
    case LossName::CrossEntropy:
    case LossName::Focal:
      return classification_outputs(outputs, batch,
                                    {.class_weights = weights_on(outputs.device()),
                                     .label_smoothing = config_.label_smoothing,
                                     .gamma = config_.name == LossName::Focal ? config_.gamma : 0});
    case LossName::Binary: return binary_outputs(outputs, batch, weights_on(outputs.device()));
    case LossName::MeanSquaredError: return regression_outputs(outputs, batch, {});
    case LossName::L1: return regression_outputs(outputs, batch, {.error = ErrorOf::Absolute});
    case LossName::Huber:
      return regression_outputs(outputs, batch, {ErrorOf::Huber, config_.delta});
  }
  return {};
}

at::Tensor LabelLoss::example_label() const {
  return is_classification(config_.name) ? at::zeros({1}, at::kLong) : at::zeros({1, outputs_});
}

}  // namespace lockstep::models
