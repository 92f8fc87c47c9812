// Model "resnet": residual networks (He et al., "Deep Residual Learning for Image Recognition",
// 2015; the stride of a bottleneck on its 3x3 convolution). Needs "image" [B, C, H, W] of any size.
// Modules and initialization are those of torchvision's resnet18 to resnet152, bit for bit after
// the same torch.manual_seed, so that their weights load (train.init_from).
// Shapes: B samples, C channels, H height, W width, K classes.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <array>

#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/model.h"
#include "models/classification.h"
#include "models/loss.h"

namespace lockstep::models {
namespace {

constexpr int64_t kBottleneckExpansion = 4;

enum class ResnetStem { ImageNet, Small };
constexpr auto choices(ResnetStem) { return std::array{"imagenet", "small"}; }

struct ResnetConfig {
  int64_t depth = 18;
  int64_t classes = 1000;
  LossConfig loss;
  int64_t in_channels = 3;
  ResnetStem stem = ResnetStem::ImageNet;
  bool zero_init_residual = false;
};

template <class V>
void fields(V& v, ResnetConfig& c) {
  v("depth", c.depth, "layers with weights: 18, 34, 50, 101 or 152", at_least(18), at_most(152));
  v("classes", c.classes, "number of classes, or of values for regression", at_least(1));
  v("loss", c.loss, kLossHelp);
  v("in_channels", c.in_channels, "channels of the images: 1 for gray, 3 for color", at_least(1));
  v("stem", c.stem,
    "the first layers; imagenet: a 7x7 convolution and max pooling, which reduce height and width "
    "to a quarter; small: a 3x3 convolution at full resolution, for images of up to 64 pixels");
  v("zero_init_residual", c.zero_init_residual,
    "initialize the last norm of each block with 0, so that each block starts as the identity");
}

// Blocks of each of the four stages.
struct Depth {
  int64_t layers;
  bool has_bottlenecks;
  std::array<int64_t, 4> blocks;
};

constexpr std::array<Depth, 5> kDepths = {{{18, false, {2, 2, 2, 2}},
                                           {34, false, {3, 4, 6, 3}},
                                           {50, true, {3, 4, 6, 3}},
                                           {101, true, {3, 4, 23, 3}},
                                           {152, true, {3, 8, 36, 3}}}};

const Depth& depth_of(const ResnetConfig& config) {
  for (const auto& depth : kDepths)
    if (depth.layers == config.depth) return depth;
  throw config_error(
      fmt::format("model resnet: invalid depth {}; valid: 18, 34, 50, 101, 152", config.depth));
}

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// Two 3x3 convolutions, or 1x1, 3x3 and 1x1 convolutions, with a shortcut connection.
struct ResidualBlock final : Block {
  ResidualBlock(int64_t in, int64_t width, int64_t stride, bool is_bottleneck) {
    const auto out = is_bottleneck ? kBottleneckExpansion * width : width;
    torch::nn::Sequential way_round{nullptr};
    if (stride != 1 || in != out)
      way_round =
          torch::nn::Sequential(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out));
    if (is_bottleneck) {
      add(in, width, 1, 1);
      add(width, width, 3, stride);
      add(width, out, 1, 1);
    } else {
      add(in, width, 3, stride);
      add(width, width, 3, 1);
    }
    if (way_round) downsample_ = register_module("downsample", way_round);
  }

  at::Tensor forward(const at::Tensor& x) {
    return run(x, [this](const at::Tensor& input) { return layers(input); });
  }

  torch::nn::BatchNorm2d& last_norm() { return norms_.back(); }

 private:
  at::Tensor layers(const at::Tensor& x) {
    auto y = x;
    for (size_t i = 0; i + 1 < convs_.size(); ++i)
      y = norms_[i]->forward(convs_[i]->forward(y)).relu_();
    y = norms_.back()->forward(convs_.back()->forward(y));
    y += downsample_ ? downsample_->forward(x) : x;
    return y.relu_();
  }

  void add(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    const auto number = convs_.size() + 1;
    convs_.push_back(
        register_module(fmt::format("conv{}", number), convolution(in, out, kernel, stride)));
    norms_.push_back(register_module(fmt::format("bn{}", number), torch::nn::BatchNorm2d(out)));
  }

  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential downsample_{nullptr};
};

class Resnet final : public Model {
 public:
  using Config = ResnetConfig;

  explicit Resnet(const Config& config)
      : config_(config), loss_(config.loss, config.classes, "resnet") {
    const auto& depth = depth_of(config);
    const bool is_small = config.stem == ResnetStem::Small;
    int64_t channels = 64;
    conv1_ = register_module(
        "conv1", convolution(config.in_channels, channels, is_small ? 3 : 7, is_small ? 1 : 2));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(channels));
    for (size_t stage = 0; stage < depth.blocks.size(); ++stage) {
      const auto width = int64_t{64} << stage;
      torch::nn::Sequential blocks;
      for (int64_t i = 0; i < depth.blocks[stage]; ++i) {
        const auto stride = i == 0 && stage > 0 ? 2 : 1;
        blocks->push_back(
            std::make_shared<ResidualBlock>(channels, width, stride, depth.has_bottlenecks));
        channels = depth.has_bottlenecks ? kBottleneckExpansion * width : width;
      }
      stages_.push_back(register_module(fmt::format("layer{}", stage + 1), blocks));
    }
    fc_ = register_module("fc", std::make_shared<Linear>(channels, config.classes));
    initialize();
  }

  Outputs forward(const Batch& batch) override {
    const auto image_BCHW = float_input(batch, "image");
    verify_image(image_BCHW);
    if (is_training()) verify_batch(image_BCHW.size(0), image_BCHW);
    auto x = bn1_->forward(conv1_->forward(image_BCHW)).relu_();
    if (config_.stem == ResnetStem::ImageNet) x = at::max_pool2d(x, 3, 2, 1);
    for (auto& stage : stages_) x = stage->forward(x);
    const auto features = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    return loss_(fc_->forward(features), batch);
  }

  // Of the usual size: the model takes any.
  Batch example_sample() const override {
    const auto size = config_.stem == ResnetStem::Small ? 32 : 224;
    return example_to_classify("image", {config_.in_channels, size, size}, loss_.example_label());
  }

  void verify(const ModelUse& use) const override {
    const auto samples = use.first_samples();
    for (const auto& sample : samples) verify_image(float_input(sample, "image"));
    if (samples.empty()) return;
    for (const auto size : {use.batch_size, use.last_batch_size})
      verify_batch(size, samples[0].at("image"));  // of the training set
  }

 private:
  void verify_image(const at::Tensor& image) const {
    if (image.dim() == 4 && image.size(1) == config_.in_channels && image.is_floating_point())
      return;
    throw config_error(
        fmt::format("model resnet takes float images [B, {}, H, W], but 'image' is {} {}; set "
                    "model.in_channels",
                    config_.in_channels, c10::toString(image.scalar_type()), shape_text(image)));
  }

  // The last stage works at 1/32 or 1/8 resolution; the variance of a single value is undefined.
  void verify_batch(int64_t num_samples, const at::Tensor& image) const {
    const auto shrinks_by = config_.stem == ResnetStem::Small ? 8 : 32;
    if (num_samples != 1 || image.size(2) > shrinks_by || image.size(3) > shrinks_by) return;
    throw config_error(
        fmt::format("model resnet cannot train on a batch of one image of {}x{}: its norms need "
                    "more than one value; use larger batches, data.drop_last or larger images",
                    image.size(2), image.size(3)));
  }

  void initialize() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (const auto* const conv = module->as<torch::nn::Conv2d>())
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      if (auto* const block = module->as<ResidualBlock>(); block && config_.zero_init_residual)
        torch::nn::init::zeros_(block->last_norm()->weight);
    }
  }

  ResnetConfig config_;
  LabelLoss loss_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::vector<torch::nn::Sequential> stages_;
  std::shared_ptr<Linear> fc_;
};

REGISTER_MODEL("resnet", Resnet, "residual network of 18 to 152 layers, for images");

}  // namespace
}  // namespace lockstep::models
