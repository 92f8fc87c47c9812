// A model as a plugin: softmax regression, one linear layer from pixels to classes. The same file,
// moved into models/zoo/, would be a built-in model.
#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <lockstep/model.h>

namespace {

// In a run file: model: {name: softmax_regression, inputs: 784, classes: 10}
struct SoftmaxRegressionConfig {
  int64_t inputs = 784;
  int64_t classes = 10;
};

template <class V>
void fields(V& v, SoftmaxRegressionConfig& c) {
  v("inputs", c.inputs, "input elements per sample", lockstep::at_least(1));
  v("classes", c.classes, "number of classes", lockstep::at_least(2));
}

// Shape legend: B samples, D inputs, K classes.
class SoftmaxRegression final : public lockstep::Model {
 public:
  using Config = SoftmaxRegressionConfig;

  explicit SoftmaxRegression(const Config& config)
      : linear_(register_module("linear", torch::nn::Linear(config.inputs, config.classes))) {}

  lockstep::Outputs forward(const lockstep::Batch& batch) override {
    lockstep::Outputs outputs;
    const auto image_BD = batch.at("image").flatten(1);
    outputs.predictions = linear_->forward(image_BD);
    const auto& label_B = batch.at("label");
    outputs.loss = torch::nn::functional::cross_entropy(outputs.predictions, label_B);
    outputs.count = batch.size();
    outputs.sums["accuracy"] = outputs.predictions.argmax(1).eq(label_B).sum();
    return outputs;
  }

 private:
  torch::nn::Linear linear_;
};

REGISTER_MODEL("softmax_regression", SoftmaxRegression, "one linear layer and a softmax");

}  // namespace
