// Model "cnn": 3x3 convolutions, each followed by ReLU and 2x2 max pooling, then two fully
// connected layers. Needs "image" [B, C, H, W]. Modules conv1, conv2, ..., fc1, fc2, initialized as
// the same Python module after the same torch.manual_seed, bit for bit.
// Shapes: B samples, C channels, H height = W width, K classes.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/error.h"
#include "lockstep/model.h"
#include "models/classification.h"
#include "models/loss.h"

namespace lockstep::models {
namespace {

constexpr int64_t kKernel = 3;
constexpr int64_t kPool = 2;

struct CnnConfig {
  std::vector<int64_t> channels = {32, 64};
  int64_t hidden = 128;
  int64_t image_size = 28;
  int64_t in_channels = 1;
  int64_t classes = 10;
  LossConfig loss;
};

template <class V>
void fields(V& v, CnnConfig& c) {
  v("channels", c.channels, "output channels of each convolution", at_least(1));
  v("hidden", c.hidden, "width of the hidden fully connected layer", at_least(1));
  v("image_size", c.image_size, "height and width of the images in pixels", at_least(1));
  v("in_channels", c.in_channels, "channels of the images: 1 for gray, 3 for color", at_least(1));
  v("classes", c.classes, "number of classes, or of values for regression", at_least(1));
  v("loss", c.loss, kLossHelp);
}

// Height and width after all convolutions and poolings.
int64_t final_size(const CnnConfig& config) {
  if (config.channels.empty())
    throw config_error("model cnn: channels is empty; set at least one, e.g. [32, 64]");
  auto size = config.image_size;
  for (size_t i = 0; i < config.channels.size(); ++i) {
    size = (size - kKernel + 1) / kPool;
    if (size < 1)
      throw config_error(
          fmt::format("model cnn: images of {} pixels are too small for {} convolutions; use fewer "
                      "channels (the input of convolution {} is empty)",
                      config.image_size, config.channels.size(), i + 1));
  }
  return size;
}

class Cnn final : public Model {
 public:
  using Config = CnnConfig;

  explicit Cnn(const Config& config)
      : in_channels_(config.in_channels),
        image_size_(config.image_size),
        loss_(config.loss, config.classes, "cnn") {
    const auto size = final_size(config);
    auto channels = config.in_channels;
    for (const auto next : config.channels) {
      const auto name = fmt::format("conv{}", convs_.size() + 1);
      convs_.push_back(register_module(
          name, torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, next, kKernel))));
      channels = next;
    }
    fc1_ = register_module("fc1", std::make_shared<Linear>(channels * size * size, config.hidden));
    fc2_ = register_module("fc2", std::make_shared<Linear>(config.hidden, config.classes));
  }

  Outputs forward(const Batch& batch) override {
    auto x = float_input(batch, "image");
    if (x.dim() != 4 || x.size(1) != in_channels_ || x.size(2) != image_size_ ||
        x.size(3) != image_size_)
      throw config_error(
          fmt::format("model cnn takes images [B, {}, {}, {}], but 'image' is {}; set "
                      "model.in_channels and model.image_size",
                      in_channels_, image_size_, image_size_, shape_text(x)));
    for (auto& conv : convs_) x = at::max_pool2d(at::relu(conv->forward(x)), kPool);
    const auto hidden = at::relu(fc1_->forward(x.flatten(1)));
    return loss_(fc2_->forward(hidden), batch);
  }

  Batch example_sample() const override {
    return example_to_classify("image", {in_channels_, image_size_, image_size_},
                               loss_.example_label());
  }

 private:
  int64_t in_channels_, image_size_;
  LabelLoss loss_;
  std::vector<torch::nn::Conv2d> convs_;
  std::shared_ptr<Linear> fc1_, fc2_;
};

REGISTER_MODEL(
    "cnn", Cnn,
    "convolutions with max pooling and two fully connected layers, for image classification");

}  // namespace
}  // namespace lockstep::models
