#include "models/encoder/encoder_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/decoder/hf_rotary.h"

namespace lockstep::models {
namespace {

constexpr int64_t kMaxEncoderLayers = 10000, kMaxLabels = 100'000;

struct EncoderNames {
  const char* type;  // "model_type"
  const char* root;
  const char* prefix;  // of "architectures"
};

constexpr std::array<EncoderNames, 3> kEncoders = {{{"bert", "bert", "Bert"},
                                                    {"roberta", "roberta", "Roberta"},
                                                    {"modernbert", "model", "ModernBert"}}};
constexpr std::array kTaskSuffixes = {"ForSequenceClassification", "ForTokenClassification",
                                      "ForMaskedLM"};

const EncoderNames& names_of_family(EncoderFamily family) {
  return kEncoders[static_cast<size_t>(family)];
}

double dropout_of(const HfMap& config, const char* key, double fallback) {
  const auto value = config.number(key, fallback);
  if (value < 0 || value >= 1)
    throw config.wrong(fmt::format("'{}' must be at least 0 and below 1", key));
  return value;
}

// Embeddings of positions, and normalization after each sublayer.
void read_bert(const HfMap& config, EncoderConfig& c) {
  c.positions = config.size("max_position_embeddings");
  c.context = c.positions;
  c.token_types = config.size("type_vocab_size", 2);
  c.pad_token = config.size("pad_token_id", 0, 0);
  c.activation = c.head_activation = activation_of(config, "hidden_act", "gelu");
  c.norm_epsilon = config.number("layer_norm_eps", 1e-12);
  c.output_dropout = c.embedding_dropout = dropout_of(config, "hidden_dropout_prob", 0.1);
  c.attention_dropout = dropout_of(config, "attention_probs_dropout_prob", 0.1);
  c.head_dropout = dropout_of(config, "classifier_dropout", c.output_dropout);
  if (config.text("position_embedding_type", "absolute") != "absolute")
    throw config.wrong("'position_embedding_type': only absolute is supported");
  if (config.flag("is_decoder", false)) throw config.wrong("'is_decoder' is not supported");
}

// Positions count from the token after the padding token.
void read_roberta(const HfMap& config, EncoderConfig& c) {
  read_bert(config, c);
  c.pad_token = config.size("pad_token_id", 1, 0);
  c.context = c.positions - c.pad_token - 1;
  if (c.context < 1)
    throw config.wrong(
        fmt::format("{} positions are too few for padding token {}", c.positions, c.pad_token));
  c.head_activation = Activation::Gelu;
}

void read_sliding_layers(const HfMap& config, EncoderConfig& c) {
  c.window = config.size("local_attention", 128) / 2;
  if (auto slides = read_sliding_layers(config, c.layers)) {
    c.slides = std::move(*slides);
    return;
  }
  c.slides.resize(static_cast<size_t>(c.layers));
  const auto every = config.size("global_attn_every_n_layers", 3);
  for (size_t i = 0; i < c.slides.size(); ++i) c.slides[i] = static_cast<int64_t>(i) % every != 0;
}

void read_modern_bert(const HfMap& config, EncoderConfig& c) {
  c.context = config.size("max_position_embeddings");
  // The default is a token of the usual vocabulary.
  constexpr int64_t kUsualPadding = 50283;
  c.pad_token = config.has("pad_token_id")     ? config.size("pad_token_id", std::nullopt, 0)
                : c.vocab_size > kUsualPadding ? kUsualPadding
                                               : -1;
  c.activation = activation_of(config, "hidden_activation", "gelu");
  c.head_activation = activation_of(config, "classifier_activation", "gelu");
  c.norm_epsilon = config.number("norm_eps", 1e-5);
  c.embedding_dropout = dropout_of(config, "embedding_dropout", 0);
  c.attention_dropout = c.output_dropout = dropout_of(config, "attention_dropout", 0);
  c.mlp_dropout = dropout_of(config, "mlp_dropout", 0);
  c.head_dropout = dropout_of(config, "classifier_dropout", 0);
  c.norm_bias = config.flag("norm_bias", false);
  c.attention_bias = config.flag("attention_bias", false);
  c.mlp_bias = config.flag("mlp_bias", false);
  c.head_bias = config.flag("classifier_bias", false);
  c.decoder_bias = config.flag("decoder_bias", true);
  const auto pooling = config.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean")
    throw config.wrong(fmt::format("'classifier_pooling' is '{}'; cls and mean are supported",
                                   printable(pooling, 100)));
  c.pools_mean = pooling == "mean";
  c.rotary = rotary_of(rope_settings(config, "full_attention"),
                       config.number("global_rope_theta", 160000), c.context);
  c.local_rotary = rotary_of(rope_settings(config, "sliding_attention"),
                             config.number("local_rope_theta", 10000), c.context);
  if ((c.width / c.heads) % 2 != 0)
    throw config.wrong("rotary embeddings need heads with an even number of elements");
  read_sliding_layers(config, c);
}

std::vector<std::string> labels_of_file(const HfMap& config) {
  if (!config.has("id2label")) return numbered_labels(config.size("num_labels", 2));
  const auto& names = config.at("id2label");
  if (!names.is_object() || names.empty() || std::ssize(names) > kMaxLabels)
    throw config.wrong("'id2label' must be a map from the number of each label to its name");
  std::vector<std::string> labels(names.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto found = names.find(std::to_string(i));
    if (found == names.end() || !found->is_string())
      throw config.wrong(fmt::format("'id2label' has no name for label {} of {}", i, names.size()));
    labels[i] = found->get<std::string>();
  }
  return labels;
}

std::optional<EncoderTask> task_of_file(const HfMap& config) {
  if (!config.has("architectures")) return std::nullopt;
  const auto& list = config.at("architectures");
  if (!list.is_array() || list.empty() || !list[0].is_string())
    throw config.wrong("'architectures' must be a list of names");
  const auto name = list[0].get<std::string>();
  for (size_t i = 0; i < kTaskSuffixes.size(); ++i)
    if (name.ends_with(kTaskSuffixes[i])) return static_cast<EncoderTask>(i);
  return std::nullopt;
}

std::optional<ProblemType> problem_of_file(const HfMap& config) {
  if (!config.has("problem_type")) return std::nullopt;
  const auto text = config.text("problem_type");
  const auto names = choices(ProblemType{});
  for (size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return static_cast<ProblemType>(i);
  throw config.wrong(fmt::format("'problem_type' is '{}'; {}, {} and {} are supported",
                                 printable(text, 100), names[0], names[1], names[2]));
}

void read_sizes(const HfMap& config, EncoderConfig& c) {
  c.vocab_size = config.size("vocab_size");
  c.layers = config.size("num_hidden_layers");
  c.width = config.size("hidden_size");
  c.heads = config.size("num_attention_heads");
  c.hidden = config.size("intermediate_size");
  if (c.layers > kMaxEncoderLayers)
    throw config.wrong(fmt::format("{} layers, at most {} are valid", c.layers, kMaxEncoderLayers));
  if (c.width % c.heads != 0)
    throw config.wrong(fmt::format("{} heads do not divide a width of {}", c.heads, c.width));
  c.init_deviation = config.number("initializer_range", 0.02);
  c.tied_embeddings = config.flag("tie_word_embeddings", true);
}

}  // namespace

const char* EncoderConfig::root() const { return names_of_family(family).root; }

std::string EncoderConfig::architecture(EncoderTask which) const {
  return fmt::format("{}{}", names_of_family(family).prefix,
                     kTaskSuffixes[static_cast<size_t>(which)]);
}

std::string supported_encoders() {
  std::string names;
  for (const auto& encoder : kEncoders)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", encoder.type);
  return names;
}

std::vector<std::string> numbered_labels(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < std::min(count, kMaxLabels); ++i)
    labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

EncoderConfig parse_encoder_config(const HfMap& config) {
  const auto type = config.text("model_type");
  const auto* const found =
      std::ranges::find_if(kEncoders, [&](const EncoderNames& e) { return e.type == type; });
  if (found == kEncoders.end())
    throw config.wrong(
        fmt::format("model_type '{}' is not an encoder that is supported; these are: {}",
                    printable(type, 100), supported_encoders()));
  EncoderConfig c;
  c.family = static_cast<EncoderFamily>(found - kEncoders.begin());
  read_sizes(config, c);
  switch (c.family) {
    case EncoderFamily::Bert: read_bert(config, c); break;
    case EncoderFamily::Roberta: read_roberta(config, c); break;
    case EncoderFamily::ModernBert: read_modern_bert(config, c); break;
  }
  if (c.pad_token >= c.vocab_size)
    throw config.wrong(fmt::format("'pad_token_id' is {}, outside the vocabulary of {}",
                                   c.pad_token, c.vocab_size));
  c.task = task_of_file(config);
  c.problem = problem_of_file(config);
  c.labels = labels_of_file(config);
  return c;
}

}  // namespace lockstep::models
