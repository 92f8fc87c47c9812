// Model "mlp": fully connected layers with ReLU. Needs a field `input` of any shape with `inputs`
// elements per sample. Equals Python's nn.Sequential(Linear, ReLU, ..., Linear) called `layers`,
// bit for bit after the same torch.manual_seed. Shapes: B samples, D inputs, K classes or values.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <optional>
#include <string>

#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/model.h"
#include "models/classification.h"
#include "models/loss.h"

namespace lockstep::models {
namespace {

struct MlpConfig {
  std::string input = "image";
  std::vector<int64_t> hidden = {256, 128};
  int64_t inputs = 784;
  int64_t classes = 10;
  LossConfig loss = LossName::CrossEntropy;
  std::optional<int64_t> outputs;
};

template <class V>
void fields(V& v, MlpConfig& c) {
  v("input", c.input, "the input field of a batch, e.g. features of a table");
  v("hidden", c.hidden, "width of each hidden layer; an empty list makes a linear classifier",
    at_least(1));
  v("inputs", c.inputs, "input elements per sample, e.g. 28 * 28 pixels", at_least(1));
  v("classes", c.classes, "number of classes", at_least(1),
    needs("loss: cross_entropy", "loss.name: cross_entropy", "loss: focal", "loss.name: focal",
          "loss: binary", "loss.name: binary"));
  v("loss", c.loss, kLossHelp);
  v("outputs", c.outputs, "values per sample (empty: 1)", at_least(1),
    needs("loss: mse", "loss: l1", "loss: huber", "loss.name: huber"));
}

class Mlp final : public Model {
 public:
  using Config = MlpConfig;

  explicit Mlp(const Config& config)
      : input_(config.input),
        inputs_(config.inputs),
        outputs_(is_regression(config.loss.values.name) ? config.outputs.value_or(1)
                                                        : config.classes),
        loss_(config.loss, outputs_, "mlp") {
    auto width = config.inputs;
    for (const auto hidden : config.hidden) {
      layers_->push_back(std::make_shared<Linear>(width, hidden));
      layers_->push_back(torch::nn::ReLU());
      width = hidden;
    }
    layers_->push_back(std::make_shared<Linear>(width, outputs_));
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
    return loss_(outputs_BK, batch);
  }

  Batch example_sample() const override {
    return example_to_classify(input_, {inputs_}, loss_.example_label());
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
  int64_t inputs_, outputs_;
  LabelLoss loss_;
  torch::nn::Sequential layers_;
};

REGISTER_MODEL("mlp", Mlp,
               "fully connected layers with ReLU, for classification or, with loss: mse, l1 or "
               "huber, regression");

}  // namespace
}  // namespace lockstep::models
