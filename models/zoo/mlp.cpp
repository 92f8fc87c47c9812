// Model "mlp": fully connected layers with ReLU between them. Needs a field `input` of any shape
// with `inputs` elements per sample. The same as Python's nn.Sequential(Linear, ReLU, ..., Linear)
// under the name `layers`, bit for bit after the same torch.manual_seed. Shapes: B samples, D
// inputs, K classes or values.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <optional>
#include <string>

#include "core/error.h"
#include "models/classification.h"
#include "models/linear.h"
#include "models/regression.h"

namespace lockstep {
namespace {

constexpr const char *kCrossEntropy = "cross_entropy", *kMeanSquaredError = "mse";
constexpr int64_t kDefaultClasses = 10;

struct MlpConfig {
  std::string input = "image";
  std::vector<int64_t> hidden = {256, 128};
  int64_t inputs = 784;
  int64_t classes = kDefaultClasses;
  std::string loss = kCrossEntropy;
  std::optional<int64_t> outputs;
};

template <class V>
void fields(V& v, MlpConfig& c) {
  v("input", c.input, "the field of a batch that it takes, e.g. features of a table");
  v("hidden", c.hidden, "width of each hidden layer; an empty list makes a linear classifier",
    at_least(1));
  v("inputs", c.inputs, "numbers per sample, e.g. 28 * 28 pixels", at_least(1));
  v("classes", c.classes, "number of classes", at_least(2));
  v("loss", c.loss,
    "cross_entropy: the label is a class; mse: it is a value, or several, and the loss is the mean "
    "squared error",
    one_of({kCrossEntropy, kMeanSquaredError}));
  v("outputs", c.outputs, "values per sample with loss: mse (nothing: 1)", at_least(1));
}

class Mlp final : public Model {
 public:
  using Config = MlpConfig;

  explicit Mlp(const Config& config)
      : input_(config.input), inputs_(config.inputs), is_regression_(config.loss != kCrossEntropy) {
    if (is_regression_ && config.classes != kDefaultClasses)
      throw config_error("model.classes has no effect with loss: mse; set model.outputs");
    if (!is_regression_ && config.outputs)
      throw config_error("model.outputs has no effect without loss: mse; set model.classes");
    auto width = config.inputs;
    for (const auto hidden : config.hidden) {
      layers_->push_back(std::make_shared<Linear>(width, hidden));
      layers_->push_back(torch::nn::ReLU());
      width = hidden;
    }
    layers_->push_back(std::make_shared<Linear>(
        width, is_regression_ ? config.outputs.value_or(1) : config.classes));
    register_module("layers", layers_);
  }

  Outputs forward(const Batch& batch) override {
    verify_has_input(batch);
    const auto image = float_input(batch, input_);
    const auto num_samples = image.dim() > 0 ? image.size(0) : 0;
    if (image.dim() < 2 || image.numel() != num_samples * inputs_)
      throw config_error(fmt::format(
          "model mlp has inputs: {}, but '{}' is {}, {} per sample; set model.inputs", inputs_,
          input_, shape_text(image), num_samples > 0 ? image.numel() / num_samples : 0));
    const auto image_BD = image.reshape({num_samples, inputs_});
    const auto outputs_BK = layers_->forward(image_BD);
    return is_regression_ ? regression_outputs(outputs_BK, batch)
                          : classification_outputs(outputs_BK, batch);
  }

 private:
  void verify_has_input(const Batch& batch) const {
    if (batch.find(input_) || batch.fields.empty()) return;
    std::string names;
    for (const auto& [name, tensor] : batch.fields) names += (names.empty() ? "" : ", ") + name;
    throw config_error(
        fmt::format("model mlp reads the field '{}', but the data have: {}; set model.input to one "
                    "of them, e.g. model.input={}",
                    input_, names, batch.fields.front().first));
  }

  std::string input_;
  int64_t inputs_;
  bool is_regression_;
  torch::nn::Sequential layers_;
};

REGISTER_MODEL("mlp", Mlp,
               "fully connected layers with ReLU, for classification or (loss: mse) regression");

}  // namespace
}  // namespace lockstep
