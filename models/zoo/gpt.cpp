// Model "gpt": a decoder-only transformer for text with the architecture of GPT-2 (Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019): learned position embeddings, layer
// norm before attention and MLP, tanh GELU. Needs "tokens" int64 [B, T]; the loss is the mean over
// the "targets" (int64 [B, T]) that are not -100.
//
// Names and shapes of the parameters are those of GPT2LMHeadModel in Hugging Face's transformers,
// and so is the initialization: normal with standard deviation 0.02, residual projections 0.02 /
// sqrt(2 layers), biases 0, norms 1; drawn in the order of the parameters. Shapes: B samples, T
// tokens, N = B T, C width, H heads, D = C / H, V vocabulary.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "lockstep/error.h"
#include "models/classification.h"
#include "models/dropout.h"
#include "models/language.h"
#include "models/language_model.h"

namespace lockstep::models {
namespace {

constexpr double kNormEpsilon = 1e-5;
constexpr double kInitDeviation = 0.02;

struct GptConfig {
  int64_t vocab_size = 257;
  int64_t context = 256;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  double dropout = 0;
  bool tied_embeddings = true;
  double z_loss = 0;
};

template <class V>
void fields(V& v, GptConfig& c) {
  v("vocab_size", c.vocab_size, "number of tokens: 257 for bytes, 50257 for GPT-2", at_least(1));
  v("context", c.context, "maximum number of tokens in a sample", at_least(1));
  v("layers", c.layers, "number of transformer blocks", at_least(1));
  v("heads", c.heads, "attention heads per layer; must divide the width", at_least(1));
  v("width", c.width, "embedding dimension", at_least(1));
  v("dropout", c.dropout, "dropout probability, applied as in GPT-2 (which uses 0.1)", at_least(0),
    below(1));
  v("tied_embeddings", c.tied_embeddings,
    "whether token embedding and output projection share one matrix");
  v("z_loss", c.z_loss, kZLossHelp, at_least(0));
}

// Like Linear, with the transposed weight [in, out], as in GPT-2 checkpoints.
struct GptProjection final : torch::nn::Module {
  GptProjection(int64_t in, int64_t out)
      : weight(register_parameter("weight", at::empty({in, out}))),
        bias(register_parameter("bias", at::empty({out}))) {}

  at::Tensor forward(const at::Tensor& x_NC) const { return at::addmm(bias, x_NC, weight); }

  at::Tensor weight, bias;
};

struct Norm final : torch::nn::Module {
  explicit Norm(int64_t width)
      : weight(register_parameter("weight", at::empty({width}))),
        bias(register_parameter("bias", at::empty({width}))) {}

  at::Tensor forward(const at::Tensor& x_NC) const {
    return at::layer_norm(x_NC, weight.sizes(), weight, bias, kNormEpsilon);
  }

  at::Tensor weight, bias;
};

// A matrix with one row per token, position or logit.
struct Table final : torch::nn::Module {
  Table(int64_t rows, int64_t width)
      : weight(register_parameter("weight", at::empty({rows, width}))) {}

  at::Tensor weight;
};

// What a layer's attention sees besides the tokens of the pass.
struct Attended {
  LayerCache cache;
  std::optional<at::Tensor> mask;  // none: all tokens of the pass up to its own position
};

struct Attention final : torch::nn::Module {
  explicit Attention(const GptConfig& config)
      : heads(config.heads),
        attn_dropout(add_dropout(*this, "attn_dropout", config.dropout)),
        c_attn(register_module("c_attn",
                               std::make_shared<GptProjection>(config.width, 3 * config.width))),
        c_proj(register_module("c_proj",
                               std::make_shared<GptProjection>(config.width, config.width))) {}

  at::Tensor forward(const at::Tensor& x_NC, int64_t num_samples, const Attended& attended) const {
    const auto width = x_NC.size(1);
    const auto parts = c_attn->forward(x_NC).split(width, 1);
    const auto by_head = [&](const at::Tensor& part_NC) {
      return part_NC.view({num_samples, -1, heads, width / heads}).transpose(1, 2);
    };
    const auto [keys, values] = attended.cache.add(by_head(parts[1]), by_head(parts[2]));
    const auto mixed_BHTD = at::scaled_dot_product_attention(
        by_head(parts[0]), keys, values, attended.mask, attn_dropout->probability(),
        /*is_causal=*/!attended.mask);
    return c_proj->forward(mixed_BHTD.transpose(1, 2).reshape({-1, width}));
  }

  int64_t heads;
  std::shared_ptr<Dropout> attn_dropout;
  std::shared_ptr<GptProjection> c_attn, c_proj;
};

struct Perceptron final : torch::nn::Module {
  explicit Perceptron(int64_t width)
      : c_fc(register_module("c_fc", std::make_shared<GptProjection>(width, 4 * width))),
        c_proj(register_module("c_proj", std::make_shared<GptProjection>(4 * width, width))) {}

  at::Tensor forward(const at::Tensor& x_NC) const {
    return c_proj->forward(at::gelu(c_fc->forward(x_NC), "tanh"));
  }

  std::shared_ptr<GptProjection> c_fc, c_proj;
};

struct Layer final : lockstep::Block {
  explicit Layer(const GptConfig& config)
      : dropout(add_dropout(*this, "dropout", config.dropout)),
        ln_1(register_module("ln_1", std::make_shared<Norm>(config.width))),
        attn(register_module("attn", std::make_shared<Attention>(config))),
        ln_2(register_module("ln_2", std::make_shared<Norm>(config.width))),
        mlp(register_module("mlp", std::make_shared<Perceptron>(config.width))) {}

  at::Tensor forward(const at::Tensor& x_NC, int64_t num_samples, const Attended& attended) {
    return run(x_NC, [this, num_samples, attended](const at::Tensor& x) {
      return layer(x, num_samples, attended);
    });
  }

  at::Tensor layer(const at::Tensor& x_NC, int64_t num_samples, const Attended& attended) const {
    const auto seen_NC =
        dropout->forward(attn->forward(ln_1->forward(x_NC), num_samples, attended)) + x_NC;
    return seen_NC + dropout->forward(mlp->forward(ln_2->forward(seen_NC)));
  }

  std::shared_ptr<Dropout> dropout;
  std::shared_ptr<Norm> ln_1;
  std::shared_ptr<Attention> attn;
  std::shared_ptr<Norm> ln_2;
  std::shared_ptr<Perceptron> mlp;
};

struct Transformer final : torch::nn::Module {
  explicit Transformer(const GptConfig& config)
      : drop(add_dropout(*this, "drop", config.dropout)),
        wte(register_module("wte", std::make_shared<Table>(config.vocab_size, config.width))),
        wpe(register_module("wpe", std::make_shared<Table>(config.context, config.width))),
        h(register_module("h", std::make_shared<torch::nn::Module>())) {
    for (int64_t i = 0; i < config.layers; ++i)
      blocks.push_back(h->register_module(std::to_string(i), std::make_shared<Layer>(config)));
    ln_f = register_module("ln_f", std::make_shared<Norm>(config.width));
  }

  // `cache`: null: none.
  at::Tensor forward(const at::Tensor& tokens_BT, KeyValueCache* cache) const {
    const bool continues = cache && !cache->is_first();
    const auto places =
        continues ? cache->positions() : at::arange(tokens_BT.size(1), tokens_BT.options());
    auto x_NC = drop->forward(
        (at::embedding(wte->weight, tokens_BT) + at::embedding(wpe->weight, places)).flatten(0, 1));
    Attended attended{.cache = {cache, 0}};
    if (continues) attended.mask = cache->mask(0);
    for (const auto& block : blocks) {
      x_NC = block->forward(x_NC, tokens_BT.size(0), attended);
      ++attended.cache.layer;
    }
    return ln_f->forward(x_NC);
  }

  std::shared_ptr<Dropout> drop;
  std::shared_ptr<Table> wte, wpe;
  std::shared_ptr<torch::nn::Module> h;
  std::vector<std::shared_ptr<Layer>> blocks;
  std::shared_ptr<Norm> ln_f;
};

class Gpt final : public Model, public LanguageModel {
 public:
  using Config = GptConfig;

  explicit Gpt(const Config& config)
      : vocab_size_(config.vocab_size), context_(config.context), z_loss_(config.z_loss) {
    if (config.width % config.heads != 0)
      throw config_error(fmt::format("model gpt: {} heads do not divide a width of {}",
                                     config.heads, config.width));
    transformer_ = register_module("transformer", std::make_shared<Transformer>(config));
    if (!config.tied_embeddings)
      lm_head_ =
          register_module("lm_head", std::make_shared<Table>(config.vocab_size, config.width));
    initialize(config.layers);
  }

  Outputs forward(const Batch& batch) override {
    verify_text(batch);
    const auto& tokens_BT = batch.at("tokens");
    const auto logits_NV = logits_of(transformer_->forward(tokens_BT, nullptr));
    return language_outputs(logits_NV.view({-1, tokens_BT.size(1), logits_NV.size(1)}), batch,
                            {.vocab_size = vocab_size_,
                             .with_accuracy = !is_training(),
                             .z_loss = is_training() ? z_loss_ : 0});
  }

  void verify(const ModelUse& use) const override {
    for (const auto& sample : use.first_samples()) verify_text(sample);
  }

  std::string target_name() const override { return "tokens"; }
  at::Tensor count_targets(const Batch& batch) const override { return count_token_targets(batch); }

  Batch example_sample() const override { return example_text(context_); }

  at::Tensor next_logits(const at::Tensor& tokens, const std::vector<int64_t>& counts,
                         KeyValueCache& cache) override {
    cache.begin(counts, tokens.size(1), tokens.device());
    const auto x_NC = transformer_->forward(tokens, &cache);
    return logits_of(cache.end(x_NC.view({tokens.size(0), tokens.size(1), -1})))
        .narrow(-1, 0, vocab_size_);
  }

  int64_t context_size() const override { return context_; }
  int64_t vocabulary_size() const override { return vocab_size_; }

 private:
  // [..., V], with padding.
  at::Tensor logits_of(const at::Tensor& x) const {
    const auto& weight = lm_head_ ? lm_head_->weight : transformer_->wte->weight;
    const auto logits = at::linear(x, padded_vocabulary(weight, vocabulary_multiple(weight)));
    hide_padding(logits, vocab_size_);
    return logits;
  }

  void verify_text(const Batch& batch) const {
    const auto& tokens_BT = batch.at("tokens");
    verify_tokens("tokens", tokens_BT, {vocab_size_, std::nullopt});
    if (batch.find("documents"))
      throw config_error(
          "model gpt does not separate documents; use model hf or decoder, or set pack: false");
    const auto length = tokens_BT.size(1);
    if (length == 0 || length > context_)
      throw config_error(
          fmt::format("model gpt takes up to {} tokens, but 'tokens' is {}; set model.context or "
                      "the length of the samples",
                      context_, shape_text(tokens_BT)));
  }

  void initialize(int64_t layers) {
    const at::NoGradGuard no_grad;
    const auto residual = kInitDeviation / std::sqrt(2.0 * static_cast<double>(layers));
    for (auto& item : named_parameters()) {
      auto& parameter = item.value();
      if (item.key().ends_with(".bias"))
        parameter.zero_();
      else if (parameter.dim() == 1)
        parameter.fill_(1);
      else
        parameter.normal_(0, item.key().ends_with("c_proj.weight") ? residual : kInitDeviation);
    }
  }

  int64_t vocab_size_, context_;
  double z_loss_;
  std::shared_ptr<Transformer> transformer_;
  std::shared_ptr<Table> lm_head_;  // none: tied to the embedding of tokens
};

REGISTER_MODEL("gpt", Gpt, "transformer with the GPT-2 architecture, for tokenized text");

}  // namespace
}  // namespace lockstep::models
