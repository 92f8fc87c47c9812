#include "models/encoder/encoder_head.h"

#include <ATen/ATen.h>

namespace lockstep::models {
namespace {

std::shared_ptr<torch::nn::Module> module_in(torch::nn::Module& parent, const char* name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

std::shared_ptr<Projection> linear_in(torch::nn::Module& parent, const char* name, int64_t in,
                                      int64_t out, bool has_bias = true) {
  return parent.register_module(name, std::make_shared<Projection>(in, out, has_bias));
}

}  // namespace

EncoderHead::EncoderHead(torch::nn::Module& root, EncoderBody& body, const EncoderConfig& config,
                         EncoderTask task)
    : config_(config),
      task_(task),
      is_roberta_classifier_(config.family == EncoderFamily::Roberta &&
                             task == EncoderTask::Classification),
      dropout_(add_dropout(root, "dropout", config.head_dropout)) {
  const bool is_modern = config.family == EncoderFamily::ModernBert;
  if (is_modern) {
    const auto head = module_in(root, "head");
    dense_ = linear_in(*head, "dense", config.width, config.width, config.head_bias);
    norm_ = head->register_module(
        "norm", std::make_shared<EncoderNorm>(config.width, config.norm_epsilon, config.norm_bias));
  }
  if (task == EncoderTask::Mlm)
    add_language_head(root);
  else
    add_classifier(root);
  if (config.family == EncoderFamily::Bert && task == EncoderTask::Classification)
    body.add_pooler();
}

void EncoderHead::add_classifier(torch::nn::Module& root) {
  const auto labels = static_cast<int64_t>(config_.labels.size());
  if (!is_roberta_classifier_) {
    out_ = linear_in(root, "classifier", config_.width, labels);
    return;
  }
  const auto classifier = module_in(root, "classifier");
  dense_ = linear_in(*classifier, "dense", config_.width, config_.width);
  out_ = linear_in(*classifier, "out_proj", config_.width, labels);
}

void EncoderHead::add_language_head(torch::nn::Module& root) {
  const auto finish = [&](torch::nn::Module& parent, const char* bias_owner, bool has_bias) {
    if (!config_.tied_embeddings) {
      out_ = linear_in(parent, "decoder", config_.width, config_.vocab_size, has_bias);
    } else if (has_bias) {
      auto* owner = &parent;
      std::shared_ptr<torch::nn::Module> inner;
      if (*bias_owner) owner = (inner = module_in(parent, bias_owner)).get();
      bias_ = owner->register_parameter("bias", at::zeros({config_.vocab_size}));
    }
  };
  const auto norm_in = [&](torch::nn::Module& parent, const char* name) {
    norm_ = parent.register_module(
        name, std::make_shared<EncoderNorm>(config_.width, config_.norm_epsilon, true));
  };
  switch (config_.family) {
    case EncoderFamily::ModernBert: finish(root, "decoder", config_.decoder_bias); break;
    case EncoderFamily::Bert: {
      const auto predictions = module_in(*module_in(root, "cls"), "predictions");
      const auto transform = module_in(*predictions, "transform");
      dense_ = linear_in(*transform, "dense", config_.width, config_.width);
      norm_in(*transform, "LayerNorm");
      finish(*predictions, "", true);
      break;
    }
    case EncoderFamily::Roberta: {
      const auto head = module_in(root, "lm_head");
      dense_ = linear_in(*head, "dense", config_.width, config_.width);
      norm_in(*head, "layer_norm");
      finish(*head, "", true);
      break;
    }
  }
}

at::Tensor EncoderHead::pooled(const EncoderBody& body, const at::Tensor& hidden_BTC,
                               const EncoderInput& input) const {
  if (!config_.pools_mean) return body.pooled(hidden_BTC);
  if (!input.mask.defined()) return hidden_BTC.mean(1);
  const auto weights_BT1 = input.mask.unsqueeze(2).to(hidden_BTC.scalar_type());
  return (hidden_BTC * weights_BT1).sum(1) / weights_BT1.sum(1);
}

at::Tensor EncoderHead::logits(const EncoderBody& body, const at::Tensor& hidden_BTC,
                               const EncoderInput& input) const {
  auto x = task_ == EncoderTask::Classification ? pooled(body, hidden_BTC, input) : hidden_BTC;
  if (is_roberta_classifier_) x = dropout_->forward(x);
  if (dense_) {
    const auto y = dense_->forward(x);
    x = is_roberta_classifier_ ? at::tanh(y) : activated(config_.head_activation, y);
  }
  if (norm_) x = norm_->forward(x);
  if (task_ != EncoderTask::Mlm) x = dropout_->forward(x);
  return out_ ? out_->forward(x) : at::linear(x, body.embeddings(), bias_);
}

}  // namespace lockstep::models
