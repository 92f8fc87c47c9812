// The losses of models that predict classes or values, by name: `loss: focal` or
// `loss: {name: focal, gamma: 2}` in a run file.
#pragma once

#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/model.h"

namespace lockstep::models {

enum class LossName { CrossEntropy, Focal, Binary, MeanSquaredError, L1, Huber };
constexpr auto choices(LossName) {
  return std::array{"cross_entropy", "focal", "binary", "mse", "l1", "huber"};
}

struct LossFields {
  LossName name = LossName::CrossEntropy;
  double label_smoothing = 0;
  std::vector<double> class_weights;
  double gamma = 2, delta = 1;

  bool operator==(const LossFields&) const = default;
};

template <class V>
void fields(V& v, LossFields& c) {
  v("name", c.name,
    "cross_entropy and focal: the label is a class; binary: each output is a separate class, with "
    "a label of 0 or 1; mse, l1 and huber: the label is one or more values",
    required());
  v("label_smoothing", c.label_smoothing, "share of the target that is spread over all classes",
    at_least(0), below(1), needs("name: cross_entropy"));
  v("class_weights", c.class_weights, "factor of the loss of each class; the mean is over samples",
    at_least(0), needs("name: cross_entropy", "name: focal", "name: binary"));
  v("gamma", c.gamma, "exponent that reduces the loss of samples that are classified well",
    at_least(0), needs("name: focal"));
  v("delta", c.delta, "errors up to this are squared, larger ones are linear", above(0),
    needs("name: huber"));
}

// What a run file chooses. Converts from a name, for defaults.
struct LossConfig {
  LossConfig(LossName name) : values{.name = name} {}  // NOLINT(google-explicit-constructor)
  LossConfig() = default;

  LossFields values;
};

constexpr const char* kLossHelp =
    "the loss: cross_entropy, focal, binary (several classes per sample), mse, l1 or huber, or a "
    "map "
    "with its settings, e.g. {name: cross_entropy, label_smoothing: 0.1}";

// Whether the label is one class, one or more values, or 0 or 1 for each output.
inline bool is_classification(LossName name) {
  return name == LossName::CrossEntropy || name == LossName::Focal;
}
inline bool is_regression(LossName name) {
  return !is_classification(name) && name != LossName::Binary;
}

// Thread: not thread-safe.
class LabelLoss {
 public:
  // `outputs`: of the model, K. Throws Config if the settings do not fit. `model`: for the message.
  LabelLoss(const LossConfig& config, int64_t outputs, const std::string& model);

  LossName name() const { return config_.name; }

  // Computes the outputs for `outputs` [B, K] of `batch`. If the batch has a field "label", the loss
  // is a mean over samples, see models/classification.h and models/regression.h.
  Outputs operator()(const at::Tensor& outputs, const Batch& batch) const;

  // A label of one sample, for Model::example_sample().
  at::Tensor example_label() const;

 private:
  at::Tensor weights_on(at::Device device) const;

  LossFields config_;
  int64_t outputs_;
  mutable at::Tensor weights_;  // of the classes; undefined: none
};

}  // namespace lockstep::models

namespace lockstep {

// A name, or a map with `name`.
template <>
struct ConfigValue<models::LossConfig> {
  static models::LossConfig read(const ConfigNode& node, const std::string& path);
  static Json dump(const models::LossConfig& config);
  static Json schema();
};

}  // namespace lockstep
