// The architecture of a decoder-only transformer: one description for the families of open models.
// No LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::models {

enum class NormKind { Rms, RmsPlusOne, Layer };  // RmsPlusOne: scaled by 1 + weight, as in Gemma
enum class Activation { Silu, Gelu, GeluTanh, Relu };
constexpr auto choices(Activation) { return std::array{"silu", "gelu", "gelu_tanh", "relu"}; }

// Where a layer normalizes. Pre: the inputs of attention and MLP. Post: their outputs. Both: inputs
// and outputs. Parallel: both read the layer's input, each with a separate norm.
enum class NormPlace { Pre, Post, Both, Parallel };

// Head: queries and keys are normalized per head. Width: over all heads together.
enum class QkNorm { None, Head, Width };

// How the projections to queries, keys and values are stored. Concatenated: one matrix, all queries
// first. PerHead: one matrix, with query, key and value of the first head, then of the second, and
// so on.
enum class QkvLayout { Separate, Concatenated, PerHead };

enum class RotaryScaling { None, Linear, Llama3, Yarn };

// Rotary position embeddings.
struct RotaryConfig {
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::None;
  double factor = 1;
  int64_t original_context = 0;                      // Llama3 and Yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // Llama3
  double beta_fast = 32, beta_slow = 1;              // Yarn
  std::optional<double> attention_factor;            // Yarn; default: from the factor
  bool truncate = true;                              // Yarn

  bool operator==(const RotaryConfig&) const = default;
};

// A mixture of experts instead of the MLP.
struct ExpertsConfig {
  int64_t count = 0;  // 0: none
  int64_t per_token = 2;
  int64_t hidden = 0;         // of each expert
  bool normalizes = true;     // whether the weights of the chosen experts sum to 1
  int64_t shared_hidden = 0;  // of an expert of all tokens, weighted by a gate; 0: none
  double balance = 0;         // weight of the load-balancing loss while training
};

// Names of the modules, as in the checkpoints of the family.
struct DecoderNames {
  std::string root = "model", embedding = "embed_tokens", final_norm = "norm", head = "lm_head";
  std::string attention = "self_attn", qkv = "qkv_proj", out = "o_proj";
  std::string mlp = "mlp", gate_up = "gate_up_proj", gate = "gate_proj", up = "up_proj",
              down = "down_proj";
  std::string attention_norm = "input_layernorm", mlp_norm = "post_attention_layernorm";
  std::string attention_out_norm = "post_attention_layernorm",
              mlp_out_norm = "post_feedforward_layernorm";
};

struct DecoderConfig {
  int64_t vocab_size = 257;
  int64_t context = 256;  // maximum number of tokens of a sample
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4, kv_heads = 4;
  int64_t head_dim = 32;
  int64_t rotary_dim = 32;  // the first elements of a head, which are rotated
  int64_t hidden = 344;     // of the MLP
  double attention_dropout = 0, residual_dropout = 0;

  NormKind norm = NormKind::Rms;
  double norm_epsilon = 1e-6;
  NormPlace norm_place = NormPlace::Pre;
  QkNorm qk_norm = QkNorm::None;

  QkvLayout qkv_layout = QkvLayout::Separate;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  double attention_scale = 0;                      // of scores; 0: 1 / sqrt(head_dim)
  std::optional<double> attention_cap, logit_cap;  // soft caps of scores and logits
  RotaryConfig rotary;
  std::optional<RotaryConfig> local_rotary;  // of layers with a sliding window, if different
  int64_t window = 0;                        // tokens that a sliding layer sees
  std::vector<bool> slides;                  // of each layer; empty: none

  Activation activation = Activation::Silu;
  bool is_gated = true;     // SwiGLU and GeGLU: the activation of one projection times another
  bool fuses_gate = false;  // both are one matrix
  ExpertsConfig experts;

  bool tied_embeddings = false;
  double embedding_scale = 1;
  double init_deviation = 0.02;
  DecoderNames names;

  bool is_sliding(int64_t layer) const {
    return !slides.empty() && slides[static_cast<size_t>(layer)];
  }
};

// Throws Config if sizes do not fit together. `model`: for the message.
void verify_decoder(const DecoderConfig& config, const std::string& model);

}  // namespace lockstep::models
