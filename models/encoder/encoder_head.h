// The heads of encoders: hidden states to logits.
#pragma once

#include <memory>

#include "models/encoder/encoder_body.h"

namespace lockstep::models {

class EncoderHead {
 public:
  // Registers its modules with `root`, with the names of transformers, and a pooler with `body`, if
  // the task needs one.
  EncoderHead(torch::nn::Module& root, EncoderBody& body, const EncoderConfig& config,
              EncoderTask task);

  // Classification: [B, K]; tokens: [B, T, K]; mlm: [B, T, vocabulary]. `hidden`: of `body`.
  at::Tensor logits(const EncoderBody& body, const at::Tensor& hidden_BTC,
                    const EncoderInput& input) const;

 private:
  void add_classifier(torch::nn::Module& root);
  void add_language_head(torch::nn::Module& root);
  at::Tensor pooled(const EncoderBody& body, const at::Tensor& hidden_BTC,
                    const EncoderInput& input) const;

  EncoderConfig config_;
  EncoderTask task_;
  bool is_roberta_classifier_;
  std::shared_ptr<Dropout> dropout_;         // a child of the root
  std::shared_ptr<Projection> dense_, out_;  // dense_: null without; out_: null if tied
  std::shared_ptr<EncoderNorm> norm_;        // null without
  at::Tensor bias_;                          // of tied logits
};

}  // namespace lockstep::models
