// A layer of a decoder-only transformer: attention and an MLP or a mixture of experts, each added to
// its input. Shapes: B samples, T tokens, C width, H heads, D elements of a head.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/model.h"
#include "models/decoder/decoder_config.h"
#include "models/decoder/lora.h"
#include "models/decoder/rotary.h"
#include "models/dropout.h"
#include "models/language_model.h"

namespace lockstep::models {

// What all layers of one kind share in a forward pass.
struct AttentionContext {
  RotaryTable rotary;
  // bool [T, T], [B, 1, T, T] with documents, or [B, 1, T, S] with a cache of S tokens: which keys a
  // query sees; undefined: all up to its own position.
  at::Tensor mask;
};

// The same, with attention within documents, and positions that restart at each. `documents`: int64
// [B, T], in runs of equal numbers.
std::shared_ptr<const AttentionContext> within_documents(const AttentionContext& context,
                                                         const at::Tensor& documents);

// x W^T + b in the type of W, or in that of autocast.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// y = x W^T + b, plus a low-rank adapter if it has one.
struct Projection final : torch::nn::Module {
  Projection(int64_t in, int64_t out, bool has_bias);
  at::Tensor forward(const at::Tensor& x) const;

  // The adapter is initialized so that it adds 0. `has_values`: whether the weight has its values;
  // otherwise DoRA's magnitudes are computed later, by row_norms().
  void add_lora(const LoraConfig& config, bool has_values);

  at::Tensor weight, bias;
  at::Tensor lora_a, lora_b;  // [rank, in], [out, rank]; undefined: no adapter
  at::Tensor magnitude;       // [out], with DoRA
  double lora_scale = 0;
  std::shared_ptr<Dropout> lora_dropout;  // null: no adapter

 private:
  at::Tensor adapted(const at::Tensor& x, const at::Tensor& y) const;
};

struct DecoderNorm final : torch::nn::Module {
  DecoderNorm(int64_t width, const DecoderConfig& config);
  at::Tensor forward(const at::Tensor& x) const;

  NormKind kind;
  double epsilon;
  at::Tensor weight, bias;

 private:
  at::Tensor rms_norm(const at::Tensor& x) const;
};

class DecoderAttention final : public torch::nn::Module {
 public:
  explicit DecoderAttention(const DecoderConfig& config);
  at::Tensor forward(const at::Tensor& x_BTC, const AttentionContext& context,
                     const LayerCache& cache) const;

 private:
  std::vector<at::Tensor> project(const at::Tensor& x_BTC) const;
  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const at::Tensor& mask) const;

  int64_t heads_, kv_heads_, head_dim_;
  std::shared_ptr<Dropout> dropout_;
  double scale_;
  std::optional<double> cap_;
  QkvLayout layout_;
  QkNorm qk_norm_;
  std::vector<std::shared_ptr<Projection>> inputs_;  // of query, key, value, or one of all
  std::shared_ptr<DecoderNorm> q_norm_, k_norm_;
  std::shared_ptr<Projection> out_;
};

at::Tensor activated(Activation activation, const at::Tensor& x);

// The MLP, or an expert.
class FeedForward final : public torch::nn::Module {
 public:
  FeedForward(const DecoderConfig& config, int64_t hidden);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Activation activation_;
  std::shared_ptr<Projection> gate_, up_, down_;  // gate_: null without; of both if fused
  bool is_fused_;
};

// What the load-balancing loss needs of a layer: per expert, the number of tokens that chose it, and
// the sum of its probabilities over all tokens, which has a gradient.
struct ExpertLoad {
  at::Tensor counts, probabilities;
};

// A mixture of experts: each token is processed by the experts that a router chooses for it.
class Experts final : public torch::nn::Module {
 public:
  explicit Experts(const DecoderConfig& config);
  // The projections whose outputs decide which experts are used.
  std::vector<const Projection*> routers() const { return {router_.get(), shared_gate_.get()}; }
  at::Tensor forward(const at::Tensor& x_BTC) const;

  // Of the last forward pass with a load-balancing loss.
  ExpertLoad take_load() const { return std::exchange(load_, {}); }

 private:
  ExpertsConfig config_;
  std::shared_ptr<Projection> router_;
  std::vector<std::shared_ptr<FeedForward>> experts_;
  std::shared_ptr<FeedForward> shared_;      // null: none
  std::shared_ptr<Projection> shared_gate_;  // of shared_
  mutable ExpertLoad load_;
};

class DecoderLayer final : public lockstep::Block {
 public:
  explicit DecoderLayer(const DecoderConfig& config);
  // `load`: receives what the load-balancing loss needs; null: not needed.
  at::Tensor forward(const at::Tensor& x_BTC,
                     const std::shared_ptr<const AttentionContext>& context,
                     const LayerCache& cache = {}, ExpertLoad* load = nullptr);

 private:
  at::Tensor layer(const at::Tensor& x_BTC, const AttentionContext& context,
                   const LayerCache& cache) const;
  at::Tensor feed_forward(const at::Tensor& x_BTC) const;

  NormPlace place_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<DecoderAttention> attention_;
  std::shared_ptr<FeedForward> mlp_;  // or experts_
  std::shared_ptr<Experts> experts_;
  std::shared_ptr<DecoderNorm> attention_norm_, attention_out_norm_, mlp_norm_, mlp_out_norm_;
};

}  // namespace lockstep::models
