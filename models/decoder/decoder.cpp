// Registers "decoder": a transformer whose parts are chosen in the run file.
#include "models/decoder/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "models/classification.h"
#include "models/language.h"

namespace lockstep::models {

Decoder::Decoder(DecoderConfig config, std::string name, const DecoderOptions& options)
    : config_(std::move(config)),
      name_(std::move(name)),
      base_is_bf16_(options.base_is_bf16),
      z_loss_(options.z_loss) {
  verify_decoder(config_, name_);
  const auto& names = config_.names;
  root_ = register_module(names.root, std::make_shared<torch::nn::Module>());
  const auto table = root_->register_module(names.embedding, std::make_shared<torch::nn::Module>());
  embedding_ = table->register_parameter("weight", at::empty({config_.vocab_size, config_.width}));
  dropout_ = add_dropout(*root_, "dropout", config_.residual_dropout);
  const auto list = root_->register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config_.layers; ++i)
    layers_.push_back(
        list->register_module(std::to_string(i), std::make_shared<DecoderLayer>(config_)));
  norm_ = root_->register_module(names.final_norm,
                                 std::make_shared<DecoderNorm>(config_.width, config_));
  if (!config_.tied_embeddings)
    head_ = register_module(names.head,
                            std::make_shared<Projection>(config_.width, config_.vocab_size, false));
  if (options.init == DecoderInit::Random) initialize();
  if (options.lora.rank > 0) add_adapters(options);
}

void Decoder::add_adapters(const DecoderOptions& options) {
  const bool has_values = options.init == DecoderInit::Random;
  adapters_ = add_lora(*this, options.lora, has_values, name_);
  if (config_.tied_embeddings && embedding_.requires_grad())
    throw config_error(
        fmt::format("model {}: lora.modules_to_save: '{}' is also the output projection (tied "
                    "embeddings), which is not supported",
                    name_, config_.names.embedding));
  if (!options.base_is_bf16) return;
  for (auto& parameter : parameters())
    if (!parameter.requires_grad())
      parameter.set_data(has_values ? parameter.to(at::kBFloat16)
                                    : at::empty_like(parameter, at::kBFloat16));
}

void Decoder::initialize() {
  const at::NoGradGuard no_grad;
  for (auto& item : named_parameters()) {
    auto& parameter = item.value();
    if (item.key().ends_with(".bias"))
      parameter.zero_();
    else if (parameter.dim() == 1)
      parameter.fill_(config_.norm == NormKind::RmsPlusOne ? 0 : 1);
    else
      parameter.normal_(0, config_.init_deviation);
  }
}

// A sliding layer needs a mask only for samples that are longer than its window.
std::shared_ptr<const AttentionContext> Decoder::context_of(bool is_sliding, int64_t tokens,
                                                            at::Device device) const {
  const auto& rotary = is_sliding && config_.local_rotary ? *config_.local_rotary : config_.rotary;
  auto context = std::make_shared<AttentionContext>(AttentionContext{
      rotary_table(rotary, config_.rotary_dim, tokens, config_.context, device), {}});
  if (is_sliding && tokens > config_.window) {
    const auto all = at::ones({tokens, tokens}, at::TensorOptions(device).dtype(at::kBool));
    context->mask = all.tril().logical_and(all.triu(1 - config_.window));
  }
  return context;
}

// Of a pass that is not the first one of its sequences.
std::shared_ptr<const AttentionContext> Decoder::context_of(bool is_sliding,
                                                            const KeyValueCache& cache) const {
  const auto& rotary = is_sliding && config_.local_rotary ? *config_.local_rotary : config_.rotary;
  const auto table = rotary_table(rotary, config_.rotary_dim, cache.span(), config_.context,
                                  cache.positions().device());
  return std::make_shared<AttentionContext>(
      AttentionContext{table.at(cache.positions()), cache.mask(is_sliding ? config_.window : 0)});
}

at::Tensor Decoder::layers_of(const at::Tensor& tokens_BT, const DecoderPass& pass) const {
  const auto& [cache, documents_BT, loads] = pass;
  const auto context = [&](bool is_sliding) {
    if (cache && !cache->is_first()) return context_of(is_sliding, *cache);
    auto whole = context_of(is_sliding, tokens_BT.size(1), tokens_BT.device());
    return documents_BT.defined() ? within_documents(*whole, documents_BT) : whole;
  };
  const auto full = context(false);
  const auto sliding = config_.slides.empty() ? full : context(true);
  auto x_BTC = at::embedding(embedding_, tokens_BT);
  if (config_.embedding_scale != 1)
    x_BTC = x_BTC * at::scalar_tensor(config_.embedding_scale, x_BTC.options());
  x_BTC = dropout_->forward(x_BTC);
  for (size_t i = 0; i < layers_.size(); ++i)
    x_BTC = layers_[i]->forward(x_BTC, config_.is_sliding(static_cast<int64_t>(i)) ? sliding : full,
                                {cache, i}, loads ? &(*loads)[i] : nullptr);
  return x_BTC;
}

at::Tensor Decoder::logits_of(const at::Tensor& x) const {
  const auto& weight = head_ ? head_->weight : embedding_;
  auto logits = project(norm_->forward(x), padded_vocabulary(weight, vocabulary_multiple(weight)));
  if (base_is_bf16_) logits = logits.to(at::kFloat);
  if (config_.logit_cap) logits = at::tanh(logits / *config_.logit_cap) * *config_.logit_cap;
  hide_padding(logits, config_.vocab_size);
  return logits;
}

namespace {

// As in transformers: the mean over the layers and tokens of a batch.
at::Tensor balance_loss(const std::vector<ExpertLoad>& loads, int64_t tokens) {
  at::Tensor counts = loads.front().counts, probabilities = loads.front().probabilities;
  for (size_t i = 1; i < loads.size(); ++i) {
    counts = counts + loads[i].counts;
    probabilities = probabilities + loads[i].probabilities;
  }
  const auto rows = static_cast<double>(tokens) * static_cast<double>(loads.size());
  return ((counts / rows) * (probabilities / rows)).sum() * static_cast<double>(counts.size(0));
}

}  // namespace

Outputs Decoder::forward(const Batch& batch) {
  verify_text(batch);
  const auto& tokens_BT = batch.at("tokens");
  const auto* documents = batch.find("documents");
  std::vector<ExpertLoad> loads;
  if (config_.experts.balance > 0 && is_training()) loads.resize(layers_.size());
  const auto x_BTC = layers_of(tokens_BT, {.documents_BT = documents ? *documents : at::Tensor(),
                                           .loads = loads.empty() ? nullptr : &loads});
  auto outputs = language_outputs(logits_of(x_BTC), batch,
                                  {.vocab_size = config_.vocab_size,
                                   .with_accuracy = !is_training(),
                                   .z_loss = is_training() ? z_loss_ : 0});
  if (!loads.empty() && outputs.loss.defined())
    outputs.loss = outputs.loss + balance_loss(loads, tokens_BT.numel()) * config_.experts.balance;
  return outputs;
}

at::Tensor Decoder::next_logits(const at::Tensor& tokens, const std::vector<int64_t>& counts,
                                KeyValueCache& cache) {
  cache.begin(counts, tokens.size(1), tokens.device());
  const auto x_BTC = layers_of(tokens, {.cache = &cache});
  return logits_of(cache.end(x_BTC)).narrow(-1, 0, config_.vocab_size);
}

void Decoder::verify(const ModelUse& use) const {
  for (const auto& sample : use.first_samples()) verify_text(sample);
}

at::Tensor Decoder::count_targets(const Batch& batch) const { return count_token_targets(batch); }

Batch Decoder::example_sample() const {
  constexpr int64_t kUsualContext = 4096;  // many models allow more than fits any memory
  return example_text(std::min(config_.context, kUsualContext));
}

void Decoder::verify_text(const Batch& batch) const {
  const auto& tokens_BT = batch.at("tokens");
  verify_tokens("tokens", tokens_BT, {config_.vocab_size, std::nullopt});
  const auto length = tokens_BT.size(1);
  if (length == 0 || length > config_.context)
    throw config_error(fmt::format(
        "model {} takes up to {} tokens, but 'tokens' is {}; set the length of the samples", name_,
        config_.context, shape_text(tokens_BT)));
  const auto* documents_BT = batch.find("documents");
  if (documents_BT &&
      (documents_BT->scalar_type() != at::kLong || documents_BT->sizes() != tokens_BT.sizes()))
    throw config_error(fmt::format(
        "model {} needs an int64 number of its document for each token: 'documents' is {} {}, "
        "expected {}",
        name_, c10::toString(documents_BT->scalar_type()), shape_text(*documents_BT),
        shape_text(tokens_BT)));
}

namespace {

// What the run file chooses; DecoderConfig describes all families.
struct DecoderModelConfig {
  int64_t vocab_size = 257, context = 256, layers = 4, width = 128, heads = 4;
  std::optional<int64_t> kv_heads, head_dim, hidden;
  Activation activation = Activation::Silu;
  bool gated = true, bias = false, qk_norm = false, tied_embeddings = true;
  double rope_theta = 10000, dropout = 0;
  std::optional<int64_t> window;
  int64_t experts = 0, experts_per_token = 2;
  double router_aux_loss_coef = 0, z_loss = 0;
};

template <class V>
void fields(V& v, DecoderModelConfig& c) {
  v("vocab_size", c.vocab_size, "number of tokens: 257 for bytes", at_least(1));
  v("context", c.context, "maximum number of tokens in a sample", at_least(1));
  v("layers", c.layers, "number of layers", at_least(1));
  v("width", c.width, "embedding dimension", at_least(1));
  v("heads", c.heads, "attention heads per layer", at_least(1));
  v("kv_heads", c.kv_heads,
    "heads of keys and values, each shared by heads / kv_heads queries; default: heads",
    at_least(1));
  v("head_dim", c.head_dim, "size of a head; default: width / heads", at_least(2));
  v("hidden", c.hidden,
    "width of the MLP, or of an expert; default: 8/3 of the width, in multiples of 8", at_least(1));
  v("activation", c.activation, "of the MLP");
  v("gated", c.gated,
    "whether the MLP multiplies the activation by another projection (SwiGLU, GeGLU)");
  v("bias", c.bias, "whether projections have biases");
  v("qk_norm", c.qk_norm, "whether queries and keys are normalized per head");
  v("tied_embeddings", c.tied_embeddings,
    "whether token embedding and output projection share one matrix");
  v("rope_theta", c.rope_theta, "base of the rotary position embeddings", above(1));
  v("dropout", c.dropout, "dropout probability of attention weights and of what layers add",
    at_least(0), below(1));
  v("window", c.window, "tokens that attention sees; default: all", at_least(1));
  v("experts", c.experts, "experts of each layer, instead of one MLP; 0: none", at_least(0));
  v("experts_per_token", c.experts_per_token, "experts that process a token", at_least(1));
  v("router_aux_loss_coef", c.router_aux_loss_coef,
    "weight of the load-balancing loss of the experts in the training loss; 0: none", at_least(0),
    needs("experts"));
  v("z_loss", c.z_loss, kZLossHelp, at_least(0));
}

DecoderConfig resolved(const DecoderModelConfig& c) {
  if (!c.head_dim && c.width % c.heads != 0)
    throw config_error(
        fmt::format("model decoder: {} heads do not divide a width of {}", c.heads, c.width));
  DecoderConfig config{.vocab_size = c.vocab_size,
                       .context = c.context,
                       .layers = c.layers,
                       .width = c.width,
                       .heads = c.heads,
                       .kv_heads = c.kv_heads.value_or(c.heads),
                       .head_dim = c.head_dim.value_or(c.width / c.heads),
                       .hidden = c.hidden.value_or((c.width * 8 / 3 + 7) / 8 * 8),
                       .attention_dropout = c.dropout,
                       .residual_dropout = c.dropout,
                       .qk_norm = c.qk_norm ? QkNorm::Head : QkNorm::None,
                       .qkv_bias = c.bias,
                       .out_bias = c.bias,
                       .mlp_bias = c.bias,
                       .rotary = {.theta = c.rope_theta},
                       .activation = c.activation,
                       .is_gated = c.gated,
                       .tied_embeddings = c.tied_embeddings};
  config.rotary_dim = config.head_dim;
  if (c.window) {
    config.window = *c.window;
    config.slides.assign(static_cast<size_t>(c.layers), true);
  }
  if (c.experts > 0)
    config.experts = {.count = c.experts,
                      .per_token = c.experts_per_token,
                      .hidden = config.hidden,
                      .balance = c.router_aux_loss_coef};
  return config;
}

class ConfiguredDecoder final : public Decoder {
 public:
  using Config = DecoderModelConfig;
  explicit ConfiguredDecoder(const Config& config)
      : Decoder(resolved(config), "decoder", {.z_loss = config.z_loss}) {}
};

REGISTER_MODEL("decoder", ConfiguredDecoder,
               "transformer with rotary embeddings and gated MLPs or experts, like Llama");

}  // namespace
}  // namespace lockstep::models
