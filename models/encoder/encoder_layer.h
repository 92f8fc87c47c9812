// The layers of encoders: attention to all tokens of a sample, then an MLP.
// Shapes: B samples, T tokens, C width, H heads, D elements of a head.
#pragma once

#include <memory>

#include "lockstep/model.h"
#include "models/decoder/decoder_layer.h"
#include "models/decoder/rotary.h"
#include "models/dropout.h"
#include "models/encoder/encoder_config.h"

namespace lockstep::models {

// What all layers of one kind share in a forward pass.
struct EncoderContext {
  at::Tensor mask;     // bool, broadcast to [B, H, T, T]: the keys a query sees; undefined: all
  RotaryTable rotary;  // ModernBERT
};

struct EncoderNorm final : torch::nn::Module {
  EncoderNorm(int64_t width, double norm_epsilon, bool has_bias);
  at::Tensor forward(const at::Tensor& x) const;

  double epsilon;
  at::Tensor weight, bias;
};

class EncoderLayer : public lockstep::Block {
 public:
  at::Tensor forward(const at::Tensor& x_BTC, const std::shared_ptr<const EncoderContext>& context);

 private:
  virtual at::Tensor layer(const at::Tensor& x_BTC, const EncoderContext& context) const = 0;
};

// Of BERT and RoBERTa: what attention and MLP add is normalized together with their input.
class BertLayer final : public EncoderLayer {
 public:
  explicit BertLayer(const EncoderConfig& config);

 private:
  at::Tensor layer(const at::Tensor& x_BTC, const EncoderContext& context) const override;

  int64_t head_dim_;
  std::shared_ptr<Dropout> attention_dropout_, output_dropout_;
  Activation activation_;
  std::shared_ptr<Projection> query_, key_, value_, attention_out_, up_, down_;
  std::shared_ptr<EncoderNorm> attention_norm_, mlp_norm_;
};

// Of ModernBERT: the inputs of attention and MLP are normalized, except those of the first attention.
class ModernBertLayer final : public EncoderLayer {
 public:
  ModernBertLayer(const EncoderConfig& config, bool is_first);

 private:
  at::Tensor layer(const at::Tensor& x_BTC, const EncoderContext& context) const override;

  int64_t head_dim_;
  std::shared_ptr<Dropout> attention_dropout_, attention_out_dropout_, mlp_dropout_;
  Activation activation_;
  std::shared_ptr<Projection> qkv_, attention_out_, gate_up_, down_;
  std::shared_ptr<EncoderNorm> attention_norm_, mlp_norm_;  // attention_norm_: null in the first
};

}  // namespace lockstep::models
