// The architecture of an encoder in Hugging Face's layout and its head, as config.json describes
// them. No LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/decoder/decoder_config.h"
#include "models/hf/hf_map.h"

namespace lockstep::models {

enum class EncoderFamily { Bert, Roberta, ModernBert };

// Classification: one label (or several) per sample. Tokens: a class per token. Mlm: masked tokens.
enum class EncoderTask { Classification, Tokens, Mlm };
constexpr auto choices(EncoderTask) { return std::array{"classification", "tokens", "mlm"}; }

// The values of "problem_type".
enum class ProblemType { SingleLabel, MultiLabel, Regression };
constexpr auto choices(ProblemType) {
  return std::array{"single_label_classification", "multi_label_classification", "regression"};
}

struct EncoderConfig {
  EncoderFamily family = EncoderFamily::Bert;
  int64_t vocab_size = 0;
  int64_t context = 0;    // maximum number of tokens of a sample
  int64_t positions = 0;  // rows of the position table; BERT and RoBERTa
  int64_t token_types = 0;
  int64_t pad_token = -1;  // -1: none
  int64_t layers = 0, width = 0, heads = 0, hidden = 0;
  Activation activation = Activation::Gelu, head_activation = Activation::Gelu;
  double norm_epsilon = 1e-12, init_deviation = 0.02;
  double embedding_dropout = 0, attention_dropout = 0, output_dropout = 0, mlp_dropout = 0,
         head_dropout = 0;
  bool tied_embeddings = true;

  // ModernBERT only.
  bool norm_bias = true, attention_bias = true, mlp_bias = true, head_bias = true,
       decoder_bias = true;
  RotaryConfig rotary, local_rotary;
  int64_t window = 0;        // a sliding layer sees tokens at most this far away
  std::vector<bool> slides;  // of each layer
  bool pools_mean = false;   // over the tokens of a sample; otherwise its first token

  std::optional<EncoderTask> task;  // of the file; empty: it has no head that is supported
  std::optional<ProblemType> problem;
  std::vector<std::string> labels;

  // The name of the module with the encoder, e.g. "bert".
  const char* root() const;
  // The value of "architectures" for a task, e.g. "BertForMaskedLM".
  std::string architecture(EncoderTask task) const;
};

// Throws Config: a family or feature that is not supported, a value that is missing or out of range.
EncoderConfig parse_encoder_config(const HfMap& config);

// The values of "model_type" that parse_encoder_config() supports.
std::string supported_encoders();

// The names of `count` labels without names: LABEL_0, LABEL_1, ...
std::vector<std::string> numbered_labels(int64_t count);

}  // namespace lockstep::models
