// Model "mlp": fully connected layers with ReLU between them. Needs a field `input` of any shape
// with `inputs` elements per sample. The same as Python's nn.Sequential(Linear, ReLU, ..., Linear)
// under the name `layers`, bit for bit after the same torch.manual_seed. Shapes: B samples, D
// inputs, K classes.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <string>

#include "core/error.h"
#include "models/classification.h"
#include "models/linear.h"

namespace lockstep {
namespace {

struct MlpConfig {
  std::string input = "image";
  std::vector<int64_t> hidden = {256, 128};
  int64_t inputs = 784;
  int64_t classes = 10;
};

template <class V>
void fields(V& v, MlpConfig& c) {
  v("input", c.input, "the field of a batch that it takes, e.g. features of a table");
  v("hidden", c.hidden, "width of each hidden layer; an empty list makes a linear classifier",
    at_least(1));
  v("inputs", c.inputs, "numbers per sample, e.g. 28 * 28 pixels", at_least(1));
  v("classes", c.classes, "number of classes", at_least(2));
}

class Mlp final : public Model {
 public:
  using Config = MlpConfig;

  explicit Mlp(const Config& config) : input_(config.input), inputs_(config.inputs) {
    auto width = config.inputs;
    for (const auto hidden : config.hidden) {
      layers_->push_back(std::make_shared<Linear>(width, hidden));
      layers_->push_back(torch::nn::ReLU());
      width = hidden;
    }
    layers_->push_back(std::make_shared<Linear>(width, config.classes));
    register_module("layers", layers_);
  }

  Outputs forward(const Batch& batch) override {
    const auto& image = batch.at(input_);
    const auto num_samples = image.dim() > 0 ? image.size(0) : 0;
    if (image.dim() < 2 || image.numel() != num_samples * inputs_)
      throw config_error(fmt::format(
          "model mlp has inputs: {}, but '{}' is {}, {} per sample; set model.inputs", inputs_,
          input_, shape_text(image), num_samples > 0 ? image.numel() / num_samples : 0));
    const auto image_BD = image.reshape({num_samples, inputs_});
    return classification_outputs(layers_->forward(image_BD), batch);
  }

 private:
  std::string input_;
  int64_t inputs_;
  torch::nn::Sequential layers_;
};

REGISTER_MODEL("mlp", Mlp, "fully connected layers with ReLU, for classification");

}  // namespace
}  // namespace lockstep
