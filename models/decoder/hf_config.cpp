#include "models/decoder/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/decoder/hf_rotary.h"
#include "models/hf/hf_map.h"

namespace lockstep::models {
namespace {

constexpr int kMaxLayers = 10000;
constexpr int64_t kUsualWindow = 4096;

// What transformers assumes of a file that lacks a key.
struct FamilyDefaults {
  int64_t context = 2048;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  double epsilon = 1e-6, rope_theta = 10000;
};

void read_rotary(const HfMap& config, DecoderConfig& c, double part, double theta = 10000) {
  const auto settings = rope_settings(config, "full_attention");
  c.rotary = rotary_of(
      settings, config.number("rope_theta", config.number("rotary_emb_base", theta)), c.context);
  part = config.number("partial_rotary_factor", config.number("rotary_pct", part));
  part = settings.number("partial_rotary_factor", part);
  if (part <= 0 || part > 1)
    throw config.wrong("'partial_rotary_factor' must be above 0, at most 1");
  c.rotary_dim = static_cast<int64_t>(static_cast<double>(c.head_dim) * part);
}

// ---- Sliding windows.

// `slides(i)`: whether layer i has a window, if the file has no "layer_types". `usual`: the window
// if the file has no "sliding_window"; 0: none.
template <class Slides>
void read_windows(const HfMap& config, DecoderConfig& c, const Slides& slides,
                  int64_t usual = kUsualWindow) {
  if (config.is_null("sliding_window") || (usual == 0 && !config.has("sliding_window"))) return;
  c.window = config.size("sliding_window", usual);
  if (auto listed = read_sliding_layers(config, c.layers)) {
    c.slides = std::move(*listed);
  } else {
    c.slides.resize(static_cast<size_t>(c.layers));
    for (size_t i = 0; i < c.slides.size(); ++i) c.slides[i] = slides(static_cast<int64_t>(i));
  }
  if (std::ranges::count(c.slides, true) == 0) c.slides.clear();
}

bool always(int64_t) { return true; }

// ---- Families.

void read_llama(const HfMap& config, DecoderConfig& c) {
  c.qkv_bias = c.out_bias = config.flag("attention_bias", false);
  c.mlp_bias = config.flag("mlp_bias", false);
}

void read_mistral(const HfMap& config, DecoderConfig& c) { read_windows(config, c, always); }

void read_qwen_windows(const HfMap& config, DecoderConfig& c) {
  if (!config.flag("use_sliding_window", false)) return;
  const auto first = config.size("max_window_layers", 28, 0);
  read_windows(config, c, [&](int64_t layer) { return layer >= first; });
}

void read_qwen2(const HfMap& config, DecoderConfig& c) {
  c.qkv_bias = true;
  read_qwen_windows(config, c);
}

void read_qwen3_attention(const HfMap& config, DecoderConfig& c) {
  c.qkv_bias = c.out_bias = config.flag("attention_bias", false);
  c.qk_norm = QkNorm::Head;
}

void read_qwen3(const HfMap& config, DecoderConfig& c) {
  read_qwen3_attention(config, c);
  read_qwen_windows(config, c);
}

void read_gemma(const HfMap& config, DecoderConfig& c) {
  c.norm = NormKind::RmsPlusOne;
  c.norm_place = NormPlace::Both;
  c.names.mlp_norm = "pre_feedforward_layernorm";
  c.activation = activation_of(config, "hidden_activation", "gelu_pytorch_tanh");
  c.tied_embeddings = config.flag("tie_word_embeddings", true);
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  c.qkv_bias = c.out_bias = config.flag("attention_bias", false);
  const auto scalar = config.number("query_pre_attn_scalar", 256);
  if (scalar <= 0) throw config.wrong("'query_pre_attn_scalar' must be positive");
  c.attention_scale = 1 / std::sqrt(scalar);
  c.attention_cap = config.optional_number("attn_logit_softcapping");
  c.logit_cap = config.optional_number("final_logit_softcapping");
  if (config.flag("use_bidirectional_attention", false))
    throw config.wrong("'use_bidirectional_attention' is not supported");
}

void read_gemma2(const HfMap& config, DecoderConfig& c) {
  read_gemma(config, c);
  if (!config.has("attn_logit_softcapping") && !config.is_null("attn_logit_softcapping"))
    c.attention_cap = 50;
  if (!config.has("final_logit_softcapping") && !config.is_null("final_logit_softcapping"))
    c.logit_cap = 30;
  read_windows(config, c, [](int64_t layer) { return layer % 2 == 0; });
}

void read_gemma3(const HfMap& config, DecoderConfig& c) {
  read_gemma(config, c);
  c.qk_norm = QkNorm::Head;
  const auto every =
      config.size("sliding_window_pattern", config.size("_sliding_window_pattern", 6));
  read_windows(config, c, [&](int64_t layer) { return (layer + 1) % every != 0; });
  const auto local = rope_settings(config, "sliding_attention");
  const auto is_new = config.has("rope_parameters");
  c.local_rotary = is_new ? rotary_of(local, 10000, c.context)
                          : RotaryConfig{.theta = config.number("rope_local_base_freq", 10000)};
}

void read_phi3(const HfMap& config, DecoderConfig& c) {
  c.qkv_layout = QkvLayout::Concatenated;
  c.fuses_gate = true;
  c.attention_dropout = config.number("attention_dropout", 0);
  c.residual_dropout = config.number("resid_pdrop", 0);
  if (c.rotary.scaling != RotaryScaling::None)
    throw config.wrong(
        "'rope_type': phi3 has default and longrope, as which transformers also reads yarn; only "
        "default is supported");
  read_windows(config, c, always, 0);
}

void read_olmo2(const HfMap& config, DecoderConfig& c) {
  c.norm_place = NormPlace::Post;
  c.qk_norm = QkNorm::Width;
  c.qkv_bias = c.out_bias = config.flag("attention_bias", false);
}

void read_neox(const HfMap& config, DecoderConfig& c) {
  c.norm = NormKind::Layer;
  c.norm_epsilon = config.number("layer_norm_eps", 1e-5);
  c.norm_place = config.flag("use_parallel_residual", true) ? NormPlace::Parallel : NormPlace::Pre;
  c.qkv_layout = QkvLayout::PerHead;
  c.kv_heads = c.heads;
  c.qkv_bias = c.out_bias = config.flag("attention_bias", true);
  c.mlp_bias = true;
  c.is_gated = false;
  c.activation = activation_of(config, "hidden_act", "gelu");
  c.residual_dropout = config.number("hidden_dropout", 0);
  c.names = {.root = "gpt_neox",
             .embedding = "embed_in",
             .final_norm = "final_layer_norm",
             .head = "embed_out",
             .attention = "attention",
             .qkv = "query_key_value",
             .out = "dense",
             .up = "dense_h_to_4h",
             .down = "dense_4h_to_h"};
  read_rotary(config, c, 0.25);
}

void read_mixtral(const HfMap& config, DecoderConfig& c) {
  c.experts = {.count = config.size("num_local_experts", 8),
               .per_token = config.size("num_experts_per_tok", 2),
               .hidden = c.hidden,
               .normalizes = true};
  c.names.mlp = "block_sparse_moe";
  c.names.gate = "w1";
  c.names.up = "w3";
  c.names.down = "w2";
  read_windows(config, c, always, 0);
}

void verify_all_have_experts(const HfMap& config) {
  if (config.size("decoder_sparse_step", 1) != 1 ||
      (config.has("mlp_only_layers") && !config.at("mlp_only_layers").empty()))
    throw config.wrong(
        "layers without experts ('decoder_sparse_step', 'mlp_only_layers') are not "
        "supported");
}

void read_qwen3_moe(const HfMap& config, DecoderConfig& c) {
  read_qwen3_attention(config, c);
  // In transformers, "max_window_layers" has no effect here.
  if (config.flag("use_sliding_window", false)) read_windows(config, c, always);
  verify_all_have_experts(config);
  c.experts = {.count = config.size("num_experts", config.size("num_local_experts", 128)),
               .per_token = config.size("num_experts_per_tok", 8),
               .hidden = config.size("moe_intermediate_size", 768),
               .normalizes = config.flag("norm_topk_prob", false)};
}

void read_qwen2_moe(const HfMap& config, DecoderConfig& c) {
  c.qkv_bias = config.flag("qkv_bias", true);
  if (config.flag("use_sliding_window", false)) {
    const auto last = config.size("max_window_layers", 28, 0);
    read_windows(config, c, [&](int64_t layer) { return layer % 2 == 0 && layer < last; });
  }
  verify_all_have_experts(config);
  c.experts = {.count = config.size("num_experts", 60),
               .per_token = config.size("num_experts_per_tok", 4),
               .hidden = config.size("moe_intermediate_size", 1408),
               .normalizes = config.flag("norm_topk_prob", false),
               .shared_hidden = config.size("shared_expert_intermediate_size", 5632)};
}

struct Family {
  const char* type;  // "model_type"
  void (*read)(const HfMap&, DecoderConfig&);
  FamilyDefaults usual = {};
};

constexpr std::array<Family, 12> kFamilies = {
    {{"llama", read_llama},
     {"mistral", read_mistral, {.context = 131072, .kv_heads = 8}},
     {"qwen2", read_qwen2, {.context = 32768, .kv_heads = 32}},
     {"qwen3", read_qwen3, {.context = 32768, .kv_heads = 32, .head_dim = 128}},
     {"gemma2", read_gemma2, {.context = 8192, .kv_heads = 4, .head_dim = 256}},
     {"gemma3_text",
      read_gemma3,
      {.context = 131072, .kv_heads = 4, .head_dim = 256, .rope_theta = 1e6}},
     {"phi3", read_phi3, {.context = 4096, .epsilon = 1e-5}},
     {"olmo2", read_olmo2, {.epsilon = 1e-5}},
     {"gpt_neox", read_neox},
     {"mixtral",
      read_mixtral,
      {.context = 131072, .kv_heads = 8, .epsilon = 1e-5, .rope_theta = 1e6}},
     {"qwen2_moe", read_qwen2_moe, {.context = 32768, .kv_heads = 16}},
     {"qwen3_moe", read_qwen3_moe, {.context = 32768, .kv_heads = 4}}}};

// `usual`: 0 and null stand for `derived`.
int64_t size_or(const HfMap& config, const char* key, int64_t usual, int64_t derived) {
  return config.size(key, usual > 0 && !config.is_null(key) ? usual : derived);
}

DecoderConfig read_common(const HfMap& config, const FamilyDefaults& usual) {
  DecoderConfig c;
  c.vocab_size = config.size("vocab_size");
  c.context = config.size("max_position_embeddings", usual.context);
  c.layers = config.size("num_hidden_layers");
  if (c.layers > kMaxLayers)
    throw config.wrong(fmt::format("{} layers, at most {} are valid", c.layers, kMaxLayers));
  c.width = config.size("hidden_size");
  c.heads = config.size("num_attention_heads");
  c.kv_heads = size_or(config, "num_key_value_heads", usual.kv_heads, c.heads);
  if (!config.has("head_dim") && c.width % c.heads != 0)
    throw config.wrong(fmt::format("{} heads do not divide a width of {}", c.heads, c.width));
  c.head_dim = size_or(config, "head_dim", usual.head_dim, c.width / c.heads);
  c.hidden = config.size("intermediate_size");
  c.norm_epsilon = config.number("rms_norm_eps", usual.epsilon);
  c.activation =
      activation_of(config, config.has("hidden_act") ? "hidden_act" : "hidden_activation", "silu");
  c.tied_embeddings = config.flag("tie_word_embeddings", false);
  c.attention_dropout = config.number("attention_dropout", 0);
  c.init_deviation = config.number("initializer_range", 0.02);
  read_rotary(config, c, 1, usual.rope_theta);
  return c;
}

}  // namespace

std::string supported_families() {
  std::string names;
  for (const auto& family : kFamilies)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.type);
  return names;
}

DecoderConfig parse_hf_config(std::string_view text, const std::string& where) {
  const auto json = parse_hf_json(text, where);
  const HfMap config(json, where);
  const auto type = config.text("model_type");
  const auto* const family =
      std::ranges::find_if(kFamilies, [&](const Family& f) { return f.type == type; });
  if (family == kFamilies.end())
    throw config.wrong(
        fmt::format("model_type '{}' is not supported; these are: {}. lockstep-compile "
                    "compiles other models",
                    printable(type, 100), supported_families()));
  if (config.has("quantization_config"))
    throw config.wrong("quantized weights ('quantization_config') are not supported");
  auto c = read_common(config, family->usual);
  family->read(config, c);
  if (c.experts.count > 0 && config.flag("output_router_logits", false))
    c.experts.balance = config.number("router_aux_loss_coef", 0.001);
  if (c.experts.balance < 0) throw config.wrong("'router_aux_loss_coef' must be at least 0");
  for (const double dropout : {c.attention_dropout, c.residual_dropout})
    if (dropout < 0 || dropout >= 1) throw config.wrong("dropout must be at least 0 and below 1");
  verify_decoder(c, printable(type, 100));
  return c;
}

}  // namespace lockstep::models
