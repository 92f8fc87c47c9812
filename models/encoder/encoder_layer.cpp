#include "models/encoder/encoder_layer.h"

#include <ATen/ATen.h>

#include <optional>

namespace lockstep::models {
namespace {

// [B, T, C] -> [B, H, T, D]
at::Tensor in_heads(const at::Tensor& x_BTC, int64_t head_dim) {
  return x_BTC.unflatten(2, {-1, head_dim}).transpose(1, 2);
}

// Queries, keys and values [B, H, T, D] -> [B, T, C]
at::Tensor attend_to_all(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& mask, double dropout) {
  const auto mixed = at::scaled_dot_product_attention(
      query, key, value, mask.defined() ? std::optional(mask) : std::nullopt, dropout);
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace

EncoderNorm::EncoderNorm(int64_t width, double norm_epsilon, bool has_bias)
    : epsilon(norm_epsilon), weight(register_parameter("weight", at::ones({width}))) {
  if (has_bias) bias = register_parameter("bias", at::zeros({width}));
}

at::Tensor EncoderNorm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

at::Tensor EncoderLayer::forward(const at::Tensor& x_BTC,
                                 const std::shared_ptr<const EncoderContext>& context) {
  return run(x_BTC, [this, context](const at::Tensor& x) { return layer(x, *context); });
}

BertLayer::BertLayer(const EncoderConfig& config)
    : head_dim_(config.width / config.heads),
      attention_dropout_(add_dropout(*this, "attention_dropout", config.attention_dropout)),
      output_dropout_(add_dropout(*this, "output_dropout", config.output_dropout)),
      activation_(config.activation) {
  const auto child = [](torch::nn::Module& parent, const char* name) {
    return parent.register_module(name, std::make_shared<torch::nn::Module>());
  };
  const auto linear = [](torch::nn::Module& parent, const char* name, int64_t in, int64_t out) {
    return parent.register_module(name, std::make_shared<Projection>(in, out, true));
  };
  const auto norm = [&](torch::nn::Module& parent) {
    return parent.register_module(
        "LayerNorm", std::make_shared<EncoderNorm>(config.width, config.norm_epsilon, true));
  };
  const auto attention = child(*this, "attention");
  const auto inner = child(*attention, "self");
  query_ = linear(*inner, "query", config.width, config.width);
  key_ = linear(*inner, "key", config.width, config.width);
  value_ = linear(*inner, "value", config.width, config.width);
  const auto output = child(*attention, "output");
  attention_out_ = linear(*output, "dense", config.width, config.width);
  attention_norm_ = norm(*output);
  up_ = linear(*child(*this, "intermediate"), "dense", config.width, config.hidden);
  const auto mlp_output = child(*this, "output");
  down_ = linear(*mlp_output, "dense", config.hidden, config.width);
  mlp_norm_ = norm(*mlp_output);
}

at::Tensor BertLayer::layer(const at::Tensor& x_BTC, const EncoderContext& context) const {
  const auto dropped = [&](const at::Tensor& x) { return output_dropout_->forward(x); };
  const auto heads_of = [&](const Projection& projection) {
    return in_heads(projection.forward(x_BTC), head_dim_);
  };
  const auto mixed = attend_to_all(heads_of(*query_), heads_of(*key_), heads_of(*value_),
                                   context.mask, attention_dropout_->probability());
  const auto seen = attention_norm_->forward(dropped(attention_out_->forward(mixed)) + x_BTC);
  const auto hidden = activated(activation_, up_->forward(seen));
  return mlp_norm_->forward(dropped(down_->forward(hidden)) + seen);
}

ModernBertLayer::ModernBertLayer(const EncoderConfig& config, bool is_first)
    : head_dim_(config.width / config.heads),
      attention_dropout_(add_dropout(*this, "attention_dropout", config.attention_dropout)),
      attention_out_dropout_(add_dropout(*this, "attention_out_dropout", config.attention_dropout)),
      mlp_dropout_(add_dropout(*this, "mlp_dropout", config.mlp_dropout)),
      activation_(config.activation) {
  const auto norm = [&](const char* name) {
    return register_module(
        name, std::make_shared<EncoderNorm>(config.width, config.norm_epsilon, config.norm_bias));
  };
  const auto linear = [](torch::nn::Module& parent, const char* name, int64_t in, int64_t out,
                         bool has_bias) {
    return parent.register_module(name, std::make_shared<Projection>(in, out, has_bias));
  };
  if (!is_first) attention_norm_ = norm("attn_norm");
  const auto attention = register_module("attn", std::make_shared<torch::nn::Module>());
  const auto width = config.width;
  qkv_ = linear(*attention, "Wqkv", width, 3 * width, config.attention_bias);
  attention_out_ = linear(*attention, "Wo", width, width, config.attention_bias);
  mlp_norm_ = norm("mlp_norm");
  const auto mlp = register_module("mlp", std::make_shared<torch::nn::Module>());
  gate_up_ = linear(*mlp, "Wi", width, 2 * config.hidden, config.mlp_bias);
  down_ = linear(*mlp, "Wo", config.hidden, width, config.mlp_bias);
}

at::Tensor ModernBertLayer::layer(const at::Tensor& x_BTC, const EncoderContext& context) const {
  const auto parts =
      qkv_->forward(attention_norm_ ? attention_norm_->forward(x_BTC) : x_BTC).chunk(3, 2);
  const auto query = rotate(in_heads(parts[0], head_dim_), context.rotary);
  const auto key = rotate(in_heads(parts[1], head_dim_), context.rotary);
  const auto mixed = attend_to_all(query, key, in_heads(parts[2], head_dim_), context.mask,
                                   attention_dropout_->probability());
  const auto seen = x_BTC + attention_out_dropout_->forward(attention_out_->forward(mixed));
  const auto halves = gate_up_->forward(mlp_norm_->forward(seen)).chunk(2, 2);
  const auto hidden = activated(activation_, halves[0]) * halves[1];
  return seen + down_->forward(mlp_dropout_->forward(hidden));
}

}  // namespace lockstep::models
