#include "models/decoder/decoder_layer.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string>

namespace lockstep::models {
namespace {

// [B, T, H D] -> [B, H, T, D]
at::Tensor by_head(const at::Tensor& x, int64_t head_dim) {
  return x.unflatten(2, {-1, head_dim}).transpose(1, 2);
}

}  // namespace

at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto type = weight.scalar_type();
  const bool is_cast =
      x.scalar_type() != type && !at::autocast::is_autocast_enabled(x.device().type());
  return at::linear(is_cast ? x.to(type) : x, weight, bias);
}

Projection::Projection(int64_t in, int64_t out, bool has_bias)
    : weight(register_parameter("weight", at::empty({out, in}))) {
  if (has_bias) bias = register_parameter("bias", at::empty({out}));
}

void Projection::add_lora(const LoraConfig& config, bool has_values) {
  const at::NoGradGuard no_grad;
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    const auto module = register_module(name, std::make_shared<torch::nn::Module>());
    return module->register_parameter("weight", at::zeros(sizes));
  };
  lora_a = add("lora_A", {config.rank, weight.size(1)});
  lora_b = add("lora_B", {weight.size(0), config.rank});
  const auto bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  lora_a.uniform_(-bound, bound);
  lora_scale = config.scale();
  lora_dropout = add_dropout(*this, "lora_dropout", config.dropout);
  if (!config.dora) return;
  magnitude = add("lora_magnitude_vector", {weight.size(0)});
  if (has_values) magnitude.copy_(row_norms(weight, lora_a, lora_b, lora_scale));
}

at::Tensor Projection::forward(const at::Tensor& x) const {
  if (!lora_a.defined()) return project(x, weight, bias);
  const auto rows = x.reshape({-1, x.size(-1)});
  const auto y = project(rows, weight, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = y.size(1);
  return adapted(rows, y).to(y.scalar_type()).view(sizes);
}

// As in PEFT, of the rows of `x`. `y`: the output without the adapter, which may be changed.
at::Tensor Projection::adapted(const at::Tensor& x, const at::Tensor& y) const {
  const auto input = lora_dropout->forward(x);
  const auto inner = project(input, lora_a);
  // One matrix product that adds: with separate operators, four more passes over memory.
  if (!magnitude.defined() && inner.scalar_type() == y.scalar_type())
    return at::Tensor(y).addmm_(inner, lora_b.to(y.scalar_type()).t(), 1, lora_scale);
  const auto added = project(inner, lora_b) * lora_scale;
  if (!magnitude.defined()) return y + added;
  const bool drops = lora_dropout->probability() > 0;
  const auto without_bias = drops ? project(input, weight) : bias.defined() ? y - bias : y;
  const auto factor = magnitude / row_norms(weight, lora_a, lora_b, lora_scale);
  return y + (factor - 1) * without_bias + factor * added;
}

DecoderNorm::DecoderNorm(int64_t width, const DecoderConfig& config)
    : kind(config.norm),
      epsilon(config.norm_epsilon),
      weight(register_parameter("weight", at::empty({width}))) {
  if (kind == NormKind::Layer) bias = register_parameter("bias", at::empty({width}));
}

// Computed in float32, like the norms of transformers. On a GPU, one kernel replaces their seven,
// which limit the speed there; results differ in the last bits.
at::Tensor DecoderNorm::forward(const at::Tensor& x) const {
  if (kind == NormKind::Layer) return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
  if (x.is_cuda()) return rms_norm(x);
  const auto wide = x.to(at::kFloat);
  const auto normalized = wide * at::rsqrt(wide.square().mean({-1}, /*keepdim=*/true) + epsilon);
  if (kind == NormKind::RmsPlusOne)
    return (normalized * (1 + weight.to(at::kFloat))).to(x.scalar_type());
  return weight * normalized.to(x.scalar_type());
}

at::Tensor DecoderNorm::rms_norm(const at::Tensor& x) const {
  const bool adds_one = kind == NormKind::RmsPlusOne;
  const auto type = adds_one ? at::kFloat : at::result_type(x, weight);
  const auto factor = adds_one ? 1 + weight.to(type) : weight.to(type);
  const auto y = at::rms_norm(x.to(type), weight.sizes(), factor, epsilon);
  return y.to(adds_one ? x.scalar_type() : type);  // autocast of some versions returns float32
}

DecoderAttention::DecoderAttention(const DecoderConfig& config)
    : heads_(config.heads),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      dropout_(add_dropout(*this, "dropout", config.attention_dropout)),
      scale_(config.attention_scale > 0 ? config.attention_scale
                                        : 1 / std::sqrt(static_cast<double>(config.head_dim))),
      cap_(config.attention_cap),
      layout_(config.qkv_layout),
      qk_norm_(config.qk_norm) {
  const auto queries = heads_ * head_dim_, keys = kv_heads_ * head_dim_;
  const auto add = [&](const std::string& name, int64_t out) {
    inputs_.push_back(
        register_module(name, std::make_shared<Projection>(config.width, out, config.qkv_bias)));
  };
  if (layout_ == QkvLayout::Separate) {
    add("q_proj", queries);
    add("k_proj", keys);
    add("v_proj", keys);
  } else {
    add(config.names.qkv, queries + 2 * keys);
  }
  out_ = register_module(config.names.out,
                         std::make_shared<Projection>(queries, config.width, config.out_bias));
  if (qk_norm_ == QkNorm::None) return;
  const bool is_per_head = qk_norm_ == QkNorm::Head;
  q_norm_ = register_module(
      "q_norm", std::make_shared<DecoderNorm>(is_per_head ? head_dim_ : queries, config));
  k_norm_ = register_module("k_norm",
                            std::make_shared<DecoderNorm>(is_per_head ? head_dim_ : keys, config));
}

// Queries, keys and values [B, heads, T, D].
std::vector<at::Tensor> DecoderAttention::project(const at::Tensor& x_BTC) const {
  std::vector<at::Tensor> parts;
  for (const auto& input : inputs_) parts.push_back(input->forward(x_BTC));
  if (layout_ == QkvLayout::PerHead) return by_head(parts[0], 3 * head_dim_).chunk(3, 3);
  if (layout_ == QkvLayout::Concatenated) {
    const auto keys = kv_heads_ * head_dim_;
    parts = parts[0].split_with_sizes({heads_ * head_dim_, keys, keys}, 2);
  }
  if (qk_norm_ == QkNorm::Width) {
    parts[0] = q_norm_->forward(parts[0]);
    parts[1] = k_norm_->forward(parts[1]);
  }
  for (auto& part : parts) part = by_head(part, head_dim_);
  if (qk_norm_ == QkNorm::Head) {
    parts[0] = q_norm_->forward(parts[0]);
    parts[1] = k_norm_->forward(parts[1]);
  }
  return parts;
}

at::Tensor DecoderAttention::attend(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const at::Tensor& mask) const {
  const bool shares_keys = heads_ != kv_heads_;
  if (!cap_)
    return at::scaled_dot_product_attention(
        query, key, value, mask.defined() ? std::optional(mask) : std::nullopt,
        dropout_->probability(), /*is_causal=*/!mask.defined(), scale_, shares_keys);
  const auto repeated = [&](const at::Tensor& x) {
    return shares_keys ? x.repeat_interleave(heads_ / kv_heads_, 1) : x;
  };
  auto scores = at::matmul(query, repeated(key).transpose(2, 3)) * scale_;
  scores = at::tanh(scores / *cap_) * *cap_;
  const auto seen =
      mask.defined()
          ? mask
          : at::ones({query.size(2), query.size(2)}, query.options().dtype(at::kBool)).tril();
  scores = scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  const auto weights = at::softmax(scores, -1, at::kFloat).to(query.scalar_type());
  return at::matmul(dropout_->forward(weights), repeated(value));
}

at::Tensor DecoderAttention::forward(const at::Tensor& x_BTC, const AttentionContext& context,
                                     const LayerCache& cache) const {
  const auto parts = project(x_BTC);
  const auto query = rotate(parts[0], context.rotary);
  const auto [keys, values] = cache.add(rotate(parts[1], context.rotary), parts[2]);
  const auto mixed = attend(query, keys, values, context.mask);
  return out_->forward(mixed.transpose(1, 2).flatten(2));
}

FeedForward::FeedForward(const DecoderConfig& config, int64_t hidden)
    : activation_(config.activation), is_fused_(config.is_gated && config.fuses_gate) {
  const auto add = [&](const std::string& name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<Projection>(in, out, config.mlp_bias));
  };
  const auto& names = config.names;
  if (is_fused_)
    gate_ = add(names.gate_up, config.width, 2 * hidden);
  else if (config.is_gated)
    gate_ = add(names.gate, config.width, hidden);
  if (!is_fused_) up_ = add(names.up, config.width, hidden);
  down_ = add(names.down, hidden, config.width);
}

at::Tensor activated(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::Silu: return at::silu(x);
    case Activation::Gelu: return at::gelu(x);
    case Activation::GeluTanh: return at::gelu(x, "tanh");
    case Activation::Relu: return at::relu(x);
  }
  return x;
}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  if (!gate_) return down_->forward(activated(activation_, up_->forward(x)));
  if (!is_fused_)
    return down_->forward(activated(activation_, gate_->forward(x)) * up_->forward(x));
  const auto halves = gate_->forward(x).chunk(2, -1);
  return down_->forward(halves[1] * activated(activation_, halves[0]));
}

Experts::Experts(const DecoderConfig& config)
    : config_(config.experts),
      router_(register_module(
          "gate", std::make_shared<Projection>(config.width, config.experts.count, false))) {
  const auto list = register_module("experts", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config_.count; ++i)
    experts_.push_back(list->register_module(
        std::to_string(i), std::make_shared<FeedForward>(config, config_.hidden)));
  if (config_.shared_hidden == 0) return;
  shared_ = register_module("shared_expert",
                            std::make_shared<FeedForward>(config, config_.shared_hidden));
  shared_gate_ =
      register_module("shared_expert_gate", std::make_shared<Projection>(config.width, 1, false));
}

// Every expert runs, also without tokens, so that all of its weights have gradients.
at::Tensor Experts::forward(const at::Tensor& x_BTC) const {
  const auto x = x_BTC.flatten(0, 1);
  const auto shares = at::softmax(router_->forward(x), -1, at::kFloat);
  auto [weights, chosen] = at::topk(shares, config_.per_token, -1);  // [B T, per_token]
  if (config_.balance > 0 && is_training()) {
    const auto experts = at::arange(config_.count, chosen.options());
    load_ = {.counts = chosen.flatten().unsqueeze(1).eq(experts).sum(0).to(at::kFloat),
             .probabilities = shares.sum(0)};
  }
  if (config_.normalizes) weights = weights / weights.sum(-1, /*keepdim=*/true);
  auto sum = at::zeros_like(x);
  for (int64_t i = 0; i < config_.count; ++i) {
    const auto places = chosen.eq(i).nonzero();  // of token and choice
    const auto tokens = places.select(1, 0), choices = places.select(1, 1);
    const auto out = experts_[static_cast<size_t>(i)]->forward(x.index_select(0, tokens));
    const auto weight = weights.index({tokens, choices}).unsqueeze(1);
    sum = sum.index_add(0, tokens, (out * weight).to(x.scalar_type()));
  }
  if (shared_)
    sum = sum + (at::sigmoid(shared_gate_->forward(x)) * shared_->forward(x)).to(x.scalar_type());
  return sum.view_as(x_BTC);
}

DecoderLayer::DecoderLayer(const DecoderConfig& config)
    : place_(config.norm_place), dropout_(add_dropout(*this, "dropout", config.residual_dropout)) {
  const auto& names = config.names;
  const auto norm = [&](const std::string& name) {
    return register_module(name, std::make_shared<DecoderNorm>(config.width, config));
  };
  attention_ = register_module(names.attention, std::make_shared<DecoderAttention>(config));
  if (config.experts.count > 0)
    experts_ = register_module(names.mlp, std::make_shared<Experts>(config));
  else
    mlp_ = register_module(names.mlp, std::make_shared<FeedForward>(config, config.hidden));
  if (place_ != NormPlace::Post) {
    attention_norm_ = norm(names.attention_norm);
    mlp_norm_ = norm(names.mlp_norm);
  }
  if (place_ == NormPlace::Post || place_ == NormPlace::Both) {
    attention_out_norm_ = norm(names.attention_out_norm);
    mlp_out_norm_ = norm(names.mlp_out_norm);
  }
}

// A block has one result. With `load`, the probabilities of the experts follow the output in it, so
// that their gradient passes through the block's backward pass.
at::Tensor DecoderLayer::forward(const at::Tensor& x_BTC,
                                 const std::shared_ptr<const AttentionContext>& context,
                                 const LayerCache& cache, ExpertLoad* load) {
  if (!load)
    return run(x_BTC,
               [this, context, cache](const at::Tensor& x) { return layer(x, *context, cache); });
  const auto counts = std::make_shared<at::Tensor>();
  const auto both = run(x_BTC, [this, context, cache, counts](const at::Tensor& x) {
    const auto y = layer(x, *context, cache);
    const auto of_layer = experts_->take_load();
    *counts = of_layer.counts;
    return at::cat({y.flatten(), of_layer.probabilities.to(y.scalar_type())});
  });
  const auto size = x_BTC.numel();
  *load = {*counts, both.narrow(0, size, both.size(0) - size).to(at::kFloat)};
  return both.narrow(0, 0, size).view_as(x_BTC);
}

at::Tensor DecoderLayer::feed_forward(const at::Tensor& x_BTC) const {
  return experts_ ? experts_->forward(x_BTC) : mlp_->forward(x_BTC);
}

at::Tensor DecoderLayer::layer(const at::Tensor& x_BTC, const AttentionContext& context,
                               const LayerCache& cache) const {
  const auto normalized = [](const std::shared_ptr<DecoderNorm>& norm, const at::Tensor& x) {
    return norm ? norm->forward(x) : x;
  };
  const auto added = [&](const at::Tensor& x) { return dropout_->forward(x); };
  const auto attended = normalized(
      attention_out_norm_, attention_->forward(normalized(attention_norm_, x_BTC), context, cache));
  if (place_ == NormPlace::Parallel)
    return added(feed_forward(mlp_norm_->forward(x_BTC))) + added(attended) + x_BTC;
  const auto seen = x_BTC + added(attended);
  return seen + added(normalized(mlp_out_norm_, feed_forward(normalized(mlp_norm_, seen))));
}

}  // namespace lockstep::models
