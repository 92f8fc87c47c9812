#include "models/encoder/encoder_body.h"

#include <ATen/ATen.h>

#include <string>

namespace lockstep::models {

EncoderBody::EncoderBody(const EncoderConfig& config)
    : config_(config),
      embedding_dropout_(add_dropout(*this, "embedding_dropout", config.embedding_dropout)) {
  if (config.family == EncoderFamily::ModernBert)
    add_modern_parts(config);
  else
    add_bert_parts(config);
}

void EncoderBody::add_bert_parts(const EncoderConfig& config) {
  const auto embeddings = register_module("embeddings", std::make_shared<torch::nn::Module>());
  const auto table = [&](const char* name, int64_t rows) {
    const auto module = embeddings->register_module(name, std::make_shared<torch::nn::Module>());
    return module->register_parameter("weight", at::empty({rows, config.width}));
  };
  tokens_ = table("word_embeddings", config.vocab_size);
  positions_ = table("position_embeddings", config.positions);
  types_ = table("token_type_embeddings", config.token_types);
  embedding_norm_ = embeddings->register_module(
      "LayerNorm", std::make_shared<EncoderNorm>(config.width, config.norm_epsilon, true));
  const auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>());
  const auto list = encoder->register_module("layer", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config.layers; ++i)
    layers_.push_back(
        list->register_module(std::to_string(i), std::make_shared<BertLayer>(config)));
}

void EncoderBody::add_modern_parts(const EncoderConfig& config) {
  const auto norm = [&] {
    return std::make_shared<EncoderNorm>(config.width, config.norm_epsilon, config.norm_bias);
  };
  const auto embeddings = register_module("embeddings", std::make_shared<torch::nn::Module>());
  const auto table =
      embeddings->register_module("tok_embeddings", std::make_shared<torch::nn::Module>());
  tokens_ = table->register_parameter("weight", at::empty({config.vocab_size, config.width}));
  embedding_norm_ = embeddings->register_module("norm", norm());
  const auto list = register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config.layers; ++i)
    layers_.push_back(list->register_module(std::to_string(i),
                                            std::make_shared<ModernBertLayer>(config, i == 0)));
  final_norm_ = register_module("final_norm", norm());
}

void EncoderBody::add_pooler() {
  const auto module = register_module("pooler", std::make_shared<torch::nn::Module>());
  pooler_ = module->register_module(
      "dense", std::make_shared<Projection>(config_.width, config_.width, true));
}

// RoBERTa does not count padding, and starts after the padding token's number.
at::Tensor EncoderBody::positions_of(const at::Tensor& tokens_BT) const {
  if (config_.family != EncoderFamily::Roberta)
    return at::arange(tokens_BT.size(1), tokens_BT.options()).unsqueeze(0);
  const auto counts_BT = tokens_BT.ne(config_.pad_token).to(at::kLong);
  return counts_BT.cumsum(1) * counts_BT + config_.pad_token;
}

// Sums in the order of transformers. The padding token's embedding has no gradient.
at::Tensor EncoderBody::embed(const EncoderInput& input) const {
  auto x_BTC = at::embedding(tokens_, input.tokens, config_.pad_token);
  if (types_.defined()) {
    const auto types = input.types.defined() ? input.types : at::zeros_like(input.tokens);
    const bool pads = config_.family == EncoderFamily::Roberta;
    x_BTC = x_BTC + at::embedding(types_, types);
    x_BTC = x_BTC +
            at::embedding(positions_, positions_of(input.tokens), pads ? config_.pad_token : -1);
  }
  return embedding_dropout_->forward(embedding_norm_->forward(x_BTC));
}

std::shared_ptr<const EncoderContext> EncoderBody::context_of(bool is_sliding,
                                                              const EncoderInput& input) const {
  const auto tokens = input.tokens.size(1);
  const auto device = input.tokens.device();
  auto context = std::make_shared<EncoderContext>();
  if (input.mask.defined()) context->mask = input.mask.unsqueeze(1).unsqueeze(1);
  if (config_.family != EncoderFamily::ModernBert) return context;
  const auto& rotary = is_sliding ? config_.local_rotary : config_.rotary;
  context->rotary =
      rotary_table(rotary, config_.width / config_.heads, tokens, config_.context, device);
  if (!is_sliding || tokens <= config_.window + 1) return context;
  const auto places = at::arange(tokens, at::TensorOptions(device).dtype(at::kLong));
  const auto distance_TT = (places.unsqueeze(0) - places.unsqueeze(1)).abs();
  const auto near_TT = distance_TT.le(config_.window);
  // Padding far from all tokens sees itself, so that no row of the softmax is empty.
  context->mask = context->mask.defined()
                      ? near_TT.logical_and(context->mask.logical_or(distance_TT.eq(0)))
                      : near_TT;
  return context;
}

at::Tensor EncoderBody::forward(const EncoderInput& input) {
  const auto full = context_of(false, input);
  const auto sliding = config_.slides.empty() ? full : context_of(true, input);
  auto x_BTC = embed(input);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const bool is_sliding = !config_.slides.empty() && config_.slides[i];
    x_BTC = layers_[i]->forward(x_BTC, is_sliding ? sliding : full);
  }
  return final_norm_ ? final_norm_->forward(x_BTC) : x_BTC;
}

at::Tensor EncoderBody::pooled(const at::Tensor& hidden_BTC) const {
  const auto first_BC = hidden_BTC.select(1, 0);
  return pooler_ ? at::tanh(pooler_->forward(first_BC)) : first_BC;
}

}  // namespace lockstep::models
