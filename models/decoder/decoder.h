// A decoder-only transformer with a language-model loss. Needs "tokens" int64 [B, T]; the loss is
// the mean over the "targets" (int64 [B, T]) that are not -100. With "documents" (int64 [B, T], in
// runs of equal numbers), attention stays within a document, and positions restart at each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "models/decoder/decoder_layer.h"
#include "models/language_model.h"

namespace lockstep::models {

// Random: weights are drawn from N(0, init_deviation^2); biases are 0, norms the identity. Later: the
// trainer loads initial_weights().
enum class DecoderInit { Random, Later };

struct DecoderOptions {
  DecoderInit init = DecoderInit::Random;
  LoraConfig lora = {};
  bool base_is_bf16 = false;  // the parameters that are not trained
  double z_loss = 0;          // models/language.h
};

// What a forward pass uses besides tokens.
struct DecoderPass {
  KeyValueCache* cache = nullptr;            // null: none
  at::Tensor documents_BT = {};              // attention is within documents; undefined: one each
  std::vector<ExpertLoad>* loads = nullptr;  // receives those of the layers, for the balance loss
};

class Decoder : public Model, public LanguageModel {
 public:
  // `name`: of the model, for messages. Throws Config.
  Decoder(DecoderConfig config, std::string name, const DecoderOptions& options);

  // Predictions are logits [B, T, vocabulary].
  Outputs forward(const Batch& batch) override;
  void verify(const ModelUse& use) const override;
  std::string target_name() const override { return "tokens"; }
  at::Tensor count_targets(const Batch& batch) const override;
  Batch example_sample() const override;  // of at most 4096 tokens
  at::Tensor next_logits(const at::Tensor& tokens, const std::vector<int64_t>& counts,
                         KeyValueCache& cache) override;
  int64_t context_size() const override { return config_.context; }
  int64_t vocabulary_size() const override { return config_.vocab_size; }

 protected:
  const Adapters& adapters() const { return adapters_; }
  const DecoderConfig& architecture() const { return config_; }

 private:
  void initialize();
  void add_adapters(const DecoderOptions& options);
  void verify_text(const Batch& batch) const;
  std::shared_ptr<const AttentionContext> context_of(bool is_sliding, int64_t tokens,
                                                     at::Device device) const;
  std::shared_ptr<const AttentionContext> context_of(bool is_sliding,
                                                     const KeyValueCache& cache) const;
  at::Tensor layers_of(const at::Tensor& tokens_BT, const DecoderPass& pass) const;
  at::Tensor logits_of(const at::Tensor& x) const;  // [..., V], may have padding

  DecoderConfig config_;
  std::string name_;
  bool base_is_bf16_;
  double z_loss_;
  std::shared_ptr<torch::nn::Module> root_;
  at::Tensor embedding_;
  std::shared_ptr<Dropout> dropout_;  // of embeddings
  std::vector<std::shared_ptr<DecoderLayer>> layers_;
  std::shared_ptr<DecoderNorm> norm_;
  std::shared_ptr<Projection> head_;  // null: tied to the embedding
  Adapters adapters_;
};

}  // namespace lockstep::models
