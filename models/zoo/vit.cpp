// Model "vit": a transformer over the patches of an image (Dosovitskiy et al., "An Image is Worth
// 16x16 Words", 2020). Needs "image" [B, C, S, S]. Modules and initialization are those of
// torchvision's VisionTransformer, bit for bit after the same torch.manual_seed, so that its
// weights load (train.init_from).
// Shapes: B samples, C channels, S image size, T tokens (a class token and the patches), E width, H
// heads, D = E / H, K classes.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>
#include <torch/version.h>

#include <cmath>

#include "lockstep/error.h"
#include "lockstep/model.h"
#include "models/classification.h"
#include "models/dropout.h"
#include "models/loss.h"

namespace lockstep::models {
namespace {

constexpr double kVitNormEpsilon = 1e-6;
constexpr double kPositionDeviation = 0.02, kBiasDeviation = 1e-6;

struct VitConfig {
  int64_t image_size = 224;
  int64_t patch_size = 16;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  int64_t mlp_width = 3072;
  double dropout = 0;
  double attention_dropout = 0;
  int64_t in_channels = 3;
  int64_t classes = 1000;
  LossConfig loss;
};

template <class V>
void fields(V& v, VitConfig& c) {
  v("image_size", c.image_size, "height and width of the images in pixels", at_least(1));
  v("patch_size", c.patch_size, "height and width of a patch; must divide image_size", at_least(1));
  v("layers", c.layers, "number of transformer blocks", at_least(1));
  v("heads", c.heads, "attention heads per layer; must divide the width", at_least(1));
  v("width", c.width, "embedding dimension", at_least(1));
  v("mlp_width", c.mlp_width, "width of the hidden layer of the MLPs", at_least(1));
  v("dropout", c.dropout, "dropout probability", at_least(0), below(1));
  v("attention_dropout", c.attention_dropout, "dropout probability of attention weights",
    at_least(0), below(1));
  v("in_channels", c.in_channels, "channels of the images: 1 for gray, 3 for color", at_least(1));
  v("classes", c.classes, "number of classes, or of values for regression", at_least(1));
  v("loss", c.loss, kLossHelp);
}

torch::nn::LayerNorm norm_of(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(kVitNormEpsilon));
}

// Python's torch.nn.init.trunc_normal_ of 2.12 and later: values outside [-2, 2] are drawn again.
void truncated_normal_by_rejection_(at::Tensor& tensor, double deviation) {
  constexpr double kMaxNormal = 9;  // of at::Tensor::normal_(0, 1)
  tensor.normal_(0, deviation);
  if (kMaxNormal * deviation < 2) return;  // without reading: the values can be deferred
  for (;;) {
    const auto outside = at::logical_or(tensor.lt(-2), tensor.gt(2));
    if (!outside.any().item<bool>()) return;
    tensor.copy_(at::where(outside, at::empty_like(tensor).normal_(0, deviation), tensor));
  }
}

// Python's torch.nn.init.trunc_normal_, truncated to [-2, 2].
void truncated_normal_(at::Tensor& tensor, double deviation) {
  const at::NoGradGuard no_grad;
  if (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12)
    return truncated_normal_by_rejection_(tensor, deviation);
  const auto share_below = [&](double x) {
    return (1 + std::erf(x / deviation / std::sqrt(2.0))) / 2;
  };
  tensor.uniform_(2 * share_below(-2) - 1, 2 * share_below(2) - 1);
  tensor.erfinv_().mul_(deviation * std::sqrt(2.0)).add_(0).clamp_(-2, 2);
}

// Python's nn.MultiheadAttention as self-attention: the same operators in the same order.
struct SelfAttention final : torch::nn::Module {
  SelfAttention(const VitConfig& config)
      : heads(config.heads),
        dropout(add_dropout(*this, "dropout", config.attention_dropout)),
        in_proj_weight(
            register_parameter("in_proj_weight", at::empty({3 * config.width, config.width}))),
        in_proj_bias(register_parameter("in_proj_bias", at::zeros({3 * config.width}))),
        out_proj(
            register_module("out_proj", std::make_shared<Linear>(config.width, config.width))) {
    torch::nn::init::xavier_uniform_(in_proj_weight);
    torch::nn::init::zeros_(out_proj->bias);
  }

  at::Tensor forward(const at::Tensor& x_BTE) const {
    const auto num_samples = x_BTE.size(0), num_tokens = x_BTE.size(1), width = x_BTE.size(2);
    const auto parts = at::linear(x_BTE.transpose(1, 0), in_proj_weight, in_proj_bias)
                           .unflatten(-1, {3, width})
                           .unsqueeze(0)
                           .transpose(0, -2)
                           .squeeze(-2)
                           .contiguous();
    const auto by_head = [&](const at::Tensor& part_TBE) {
      return part_TBE.view({num_tokens, num_samples * heads, width / heads})
          .transpose(0, 1)
          .view({num_samples, heads, num_tokens, width / heads});
    };
    const auto mixed_BHTD = at::scaled_dot_product_attention(
        by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {}, dropout->probability());
    const auto mixed_NE =
        mixed_BHTD.permute({2, 0, 1, 3}).contiguous().view({num_tokens * num_samples, width});
    return out_proj->forward(mixed_NE).view({num_tokens, num_samples, width}).transpose(1, 0);
  }

  int64_t heads;
  std::shared_ptr<Dropout> dropout;
  at::Tensor in_proj_weight, in_proj_bias;
  std::shared_ptr<Linear> out_proj;
};

// Linear, GELU, dropout, Linear, dropout; named as in Python, where GELU is counted.
struct TwoLayers final : torch::nn::Module {
  explicit TwoLayers(const VitConfig& config)
      : first(register_module("0", std::make_shared<Linear>(config.width, config.mlp_width))),
        first_dropout(add_dropout(*this, "2", config.dropout)),
        second(register_module("3", std::make_shared<Linear>(config.mlp_width, config.width))),
        second_dropout(add_dropout(*this, "4", config.dropout)) {
    for (const auto& layer : {first, second}) {
      torch::nn::init::xavier_uniform_(layer->weight);
      torch::nn::init::normal_(layer->bias, 0, kBiasDeviation);
    }
  }

  at::Tensor forward(const at::Tensor& x) const {
    const auto hidden = first_dropout->forward(at::gelu(first->forward(x)));
    return second_dropout->forward(second->forward(hidden));
  }

  std::shared_ptr<Linear> first;
  std::shared_ptr<Dropout> first_dropout;
  std::shared_ptr<Linear> second;
  std::shared_ptr<Dropout> second_dropout;
};

struct EncoderBlock final : Block {
  explicit EncoderBlock(const VitConfig& config)
      : dropout(add_dropout(*this, "dropout", config.dropout)),
        ln_1(register_module("ln_1", norm_of(config.width))),
        self_attention(register_module("self_attention", std::make_shared<SelfAttention>(config))),
        ln_2(register_module("ln_2", norm_of(config.width))),
        mlp(register_module("mlp", std::make_shared<TwoLayers>(config))) {}

  at::Tensor forward(const at::Tensor& x_BTE) {
    return run(x_BTE, [this](const at::Tensor& x) { return layer(x); });
  }

  at::Tensor layer(const at::Tensor& x_BTE) {
    const auto seen_BTE = dropout->forward(self_attention->forward(ln_1->forward(x_BTE))) + x_BTE;
    return seen_BTE + mlp->forward(ln_2->forward(seen_BTE));
  }

  std::shared_ptr<Dropout> dropout;
  torch::nn::LayerNorm ln_1;
  std::shared_ptr<SelfAttention> self_attention;
  torch::nn::LayerNorm ln_2;
  std::shared_ptr<TwoLayers> mlp;
};

struct Encoder final : torch::nn::Module {
  Encoder(const VitConfig& config, int64_t num_tokens)
      : dropout(add_dropout(*this, "dropout", config.dropout)),
        pos_embedding(register_parameter(
            "pos_embedding",
            at::empty({1, num_tokens, config.width}).normal_(0, kPositionDeviation))),
        layers(register_module("layers", std::make_shared<torch::nn::Module>())) {
    for (int64_t i = 0; i < config.layers; ++i)
      blocks.push_back(layers->register_module(fmt::format("encoder_layer_{}", i),
                                               std::make_shared<EncoderBlock>(config)));
    ln = register_module("ln", norm_of(config.width));
  }

  at::Tensor forward(const at::Tensor& x_BTE) {
    auto seen_BTE = dropout->forward(x_BTE + pos_embedding);
    for (const auto& block : blocks) seen_BTE = block->forward(seen_BTE);
    return ln->forward(seen_BTE);
  }

  std::shared_ptr<Dropout> dropout;
  at::Tensor pos_embedding;
  std::shared_ptr<torch::nn::Module> layers;
  std::vector<std::shared_ptr<EncoderBlock>> blocks;
  torch::nn::LayerNorm ln{nullptr};
};

class Vit final : public Model {
 public:
  using Config = VitConfig;

  explicit Vit(const Config& config) : config_(config), loss_(config.loss, config.classes, "vit") {
    const auto patches = patches_per_side();
    conv_proj_ = register_module(
        "conv_proj", torch::nn::Conv2d(torch::nn::Conv2dOptions(config.in_channels, config.width,
                                                                config.patch_size)
                                           .stride(config.patch_size)));
    class_token_ = register_parameter("class_token", at::zeros({1, 1, config.width}));
    encoder_ = register_module("encoder", std::make_shared<Encoder>(config, patches * patches + 1));
    auto heads = std::make_shared<torch::nn::Module>();
    head_ = heads->register_module("head", std::make_shared<Linear>(config.width, config.classes));
    register_module("heads", heads);
    const auto fan_in = config.in_channels * config.patch_size * config.patch_size;
    truncated_normal_(conv_proj_->weight, std::sqrt(1.0 / static_cast<double>(fan_in)));
    for (auto& zero : {conv_proj_->bias, head_->weight, head_->bias}) torch::nn::init::zeros_(zero);
  }

  Outputs forward(const Batch& batch) override {
    const auto image_BCSS = float_input(batch, "image");
    verify_image(image_BCSS);
    const auto num_samples = image_BCSS.size(0);
    const auto patches_BTE = conv_proj_->forward(image_BCSS).flatten(2).permute({0, 2, 1});
    const auto x_BTE = at::cat({class_token_.expand({num_samples, -1, -1}), patches_BTE}, 1);
    const auto seen_BE = encoder_->forward(x_BTE).select(1, 0);
    return loss_(head_->forward(seen_BE), batch);
  }

  Batch example_sample() const override {
    return example_to_classify("image",
                               {config_.in_channels, config_.image_size, config_.image_size},
                               loss_.example_label());
  }

  void verify(const ModelUse& use) const override {
    for (const auto& sample : use.first_samples()) verify_image(float_input(sample, "image"));
  }

 private:
  int64_t patches_per_side() const {
    if (config_.image_size % config_.patch_size != 0)
      throw config_error(
          fmt::format("model vit: patches of {} pixels do not divide images of {}; set "
                      "model.patch_size or model.image_size",
                      config_.patch_size, config_.image_size));
    if (config_.width % config_.heads != 0)
      throw config_error(fmt::format("model vit: {} heads do not divide a width of {}",
                                     config_.heads, config_.width));
    return config_.image_size / config_.patch_size;
  }

  void verify_image(const at::Tensor& image) const {
    const auto channels = config_.in_channels, size = config_.image_size;
    if (image.dim() == 4 && image.size(1) == channels && image.size(2) == size &&
        image.size(3) == size && image.is_floating_point())
      return;
    throw config_error(
        fmt::format("model vit takes float images [B, {}, {}, {}], but 'image' is {} {}; set "
                    "model.in_channels and model.image_size",
                    channels, size, size, c10::toString(image.scalar_type()), shape_text(image)));
  }

  VitConfig config_;
  LabelLoss loss_;
  torch::nn::Conv2d conv_proj_{nullptr};
  at::Tensor class_token_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Linear> head_;
};

REGISTER_MODEL("vit", Vit, "transformer over the patches of images");

}  // namespace
}  // namespace lockstep::models
