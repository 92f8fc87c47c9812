// An encoder without a head: tokens to hidden states.
#pragma once

#include <memory>
#include <vector>

#include "models/encoder/encoder_layer.h"

namespace lockstep::models {

// Shapes: B samples, T tokens.
struct EncoderInput {
  at::Tensor tokens;  // int64 [B, T]
  at::Tensor mask;    // bool [B, T]: false for padding; undefined: no padding
  at::Tensor types;   // int64 [B, T]; undefined: 0
};

class EncoderBody final : public torch::nn::Module {
 public:
  explicit EncoderBody(const EncoderConfig& config);

  // Returns the hidden states [B, T, C]. Those of padding are of no use.
  at::Tensor forward(const EncoderInput& input);
  // The hidden state of the first token [B, C] for a classifier: only BERT processes it.
  at::Tensor pooled(const at::Tensor& hidden_BTC) const;

  // The token embeddings [vocabulary, C].
  const at::Tensor& embeddings() const { return tokens_; }
  void add_pooler();

 private:
  void add_bert_parts(const EncoderConfig& config);
  void add_modern_parts(const EncoderConfig& config);
  at::Tensor embed(const EncoderInput& input) const;
  at::Tensor positions_of(const at::Tensor& tokens_BT) const;
  std::shared_ptr<const EncoderContext> context_of(bool is_sliding,
                                                   const EncoderInput& input) const;

  EncoderConfig config_;
  std::shared_ptr<Dropout> embedding_dropout_;
  at::Tensor tokens_, positions_, types_;  // tables; the last two: BERT and RoBERTa
  std::shared_ptr<EncoderNorm> embedding_norm_, final_norm_;  // final_norm_: ModernBERT
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
  std::shared_ptr<Projection> pooler_;  // null: none
};

}  // namespace lockstep::models
