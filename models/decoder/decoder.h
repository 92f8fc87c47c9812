// A decoder-only transformer with a language-model loss. Needs "tokens" int64 [B, T]; the loss is
// the mean over the "targets" (int64 [B, T]) that are not -100.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "models/decoder/decoder_layer.h"

namespace lockstep::models {

// Random: weights are drawn from N(0, init_deviation^2); biases are 0, norms the identity. Later: the
// trainer loads initial_weights().
enum class DecoderInit { Random, Later };

struct DecoderOptions {
  DecoderInit init = DecoderInit::Random;
  LoraConfig lora = {};
  double z_loss = 0;  // models/language.h
};

class Decoder : public Model {
 public:
  // `name`: of the model, for messages. Throws Config.
  Decoder(DecoderConfig config, std::string name, const DecoderOptions& options);

  // Predictions are logits [B, T, vocabulary].
  Outputs forward(const Batch& batch) override;
  void verify(const ModelUse& use) const override;
  std::string target_name() const override { return "tokens"; }
  at::Tensor count_targets(const Batch& batch) const override;
  Batch example_sample() const override;  // of at most 4096 tokens

 protected:
  // The projections with adapters, by name.
  const std::vector<std::string>& adapted() const { return adapted_; }

 private:
  void initialize();
  void verify_text(const Batch& batch) const;
  std::shared_ptr<const AttentionContext> context_of(bool is_sliding, int64_t tokens,
                                                     at::Device device) const;
  at::Tensor logits_of(const at::Tensor& tokens_BT) const;

  DecoderConfig config_;
  std::string name_;
  double z_loss_;
  std::shared_ptr<torch::nn::Module> root_;
  at::Tensor embedding_;
  std::vector<std::shared_ptr<DecoderLayer>> layers_;
  std::shared_ptr<DecoderNorm> norm_;
  std::shared_ptr<Projection> head_;  // null: tied to the embedding
  std::vector<std::string> adapted_;
};

}  // namespace lockstep::models
