// Model "hf_encoder": a BERT, RoBERTa or ModernBERT in Hugging Face's layout with a head for
// classification, token classification or masked language modeling. Parameters have the names of
// transformers, so checkpoints can be read by from_pretrained().
// Shapes: B samples, T tokens, K labels.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/classification.h"
#include "models/encoder/encoder_head.h"
#include "models/encoder/label_names.h"
#include "models/encoder/stored_weights.h"
#include "models/hf/hf_directory.h"
#include "models/language.h"
#include "models/loss.h"

namespace lockstep::models {
namespace {

struct HfEncoderConfig {
  std::string path;
  std::optional<EncoderTask> task;
  LabelNames labels;
  std::optional<LossConfig> loss;
  bool weights = true;
};

template <class V>
void fields(V& v, HfEncoderConfig& c) {
  v("path", c.path,
    "a directory with config.json and weights of a BERT, RoBERTa or ModernBERT, as written by "
    "save_pretrained()",
    required());
  v("task", c.task,
    "the head: classification of samples (also with several labels, or values), tokens "
    "(classification of tokens) or mlm (masked tokens); default: that of config.json");
  v("labels", c.labels,
    "the number of labels, or a list of their names; default: those of config.json");
  v("loss", c.loss,
    "the loss of task: classification, e.g. binary for several labels per sample, mse for values, "
    "or a map with settings, e.g. {name: focal, gamma: 2}; default: as problem_type in config.json "
    "says");
  v("weights", c.weights,
    "whether to start with the weights of the directory; false: with random ones, for pretraining");
}

Error encoder_error(const std::string& problem) {
  return config_error("model hf_encoder: " + problem);
}

// The configuration of the file with the task and the labels of the run file.
EncoderConfig resolve_encoder(const HfEncoderConfig& chosen, const HfMap& file) {
  auto c = parse_encoder_config(file);
  if (chosen.task) c.task = chosen.task;
  if (!c.task)
    throw encoder_error(fmt::format(
        "config.json of {} names no head that is supported; set model.task to classification, "
        "tokens or mlm",
        printable(chosen.path, 400)));
  if (*c.task == EncoderTask::Mlm && !chosen.labels.is_empty())
    throw encoder_error("labels has no effect with task: mlm; remove it");
  if (*c.task != EncoderTask::Classification && chosen.loss)
    throw encoder_error("loss has no effect unless task is classification; remove it");
  c.labels = chosen.labels.resolve(c.labels);
  return c;
}

LossConfig loss_of(const HfEncoderConfig& chosen, const EncoderConfig& c) {
  if (chosen.loss) return *chosen.loss;
  const auto usual = c.labels.size() == 1 ? ProblemType::Regression : ProblemType::SingleLabel;
  switch (c.problem.value_or(usual)) {
    case ProblemType::SingleLabel: return LossName::CrossEntropy;
    case ProblemType::MultiLabel: return LossName::Binary;
    case ProblemType::Regression: return LossName::MeanSquaredError;
  }
  return {};
}

ProblemType problem_of_loss(LossName loss) {
  if (loss == LossName::Binary) return ProblemType::MultiLabel;
  return is_regression(loss) ? ProblemType::Regression : ProblemType::SingleLabel;
}

class HfEncoder final : public Model {
 public:
  using Config = HfEncoderConfig;

  explicit HfEncoder(const Config& chosen) : directory_{"hf_encoder", chosen.path} {
    const auto file = directory_.config();
    json_ = parse_hf_json(file.text, file.name);
    config_ = resolve_encoder(chosen, HfMap(json_, file.name));
    body_ = register_module(config_.root(), std::make_shared<EncoderBody>(config_));
    head_ = std::make_unique<EncoderHead>(*this, *body_, config_, *config_.task);
    if (*config_.task == EncoderTask::Classification)
      loss_.emplace(loss_of(chosen, config_), std::ssize(config_.labels), "hf_encoder");
    if (chosen.weights) find_weights();
    initialize(chosen.weights);
  }

  // Predictions are logits.
  Outputs forward(const Batch& batch) override {
    verify_text(batch);
    EncoderInput input{.tokens = batch.at("tokens"), .mask = {}, .types = {}};
    if (const auto* mask = batch.find("attention_mask")) input.mask = mask->to(at::kBool);
    if (const auto* types = batch.find("token_types")) input.types = *types;
    const auto logits = head_->logits(*body_, body_->forward(input), input);
    if (loss_) return (*loss_)(logits, batch);
    return language_outputs(logits, batch, {.with_accuracy = with_accuracy()});
  }

  void verify(const ModelUse& use) const override {
    if (use.vocabulary > config_.vocab_size)
      throw encoder_error(fmt::format(
          "the tokenizer of the data has {} tokens, but the model has a vocabulary of {}: use the "
          "tokenizer that belongs to the model",
          use.vocabulary, config_.vocab_size));
    for (const auto& sample : use.first_samples()) verify_text(sample);
  }

  std::string target_name() const override { return loss_ ? "" : "tokens"; }
  at::Tensor count_targets(const Batch& batch) const override { return count_token_targets(batch); }

  Batch example_sample() const override {
    constexpr int64_t kUsualLength = 512;
    auto sample = example_text(std::min(config_.context, kUsualLength));
    if (loss_) sample.fields.back() = {"label", loss_->example_label()};
    return sample;
  }

  InitialWeights initial_weights() const override {
    return {.file = weights_, .except = stored_.fresh, .names = stored_.names};
  }

  std::vector<std::string> warnings() const override {
    if (weights_.empty() || stored_.fresh.empty()) return {};
    return {
        fmt::format("model hf_encoder: {} has no weights for this task: {} begin with random "
                    "values",
                    printable(weights_.string(), 400), fmt::join(stored_.fresh, ", "))};
  }

  ExportedFiles exported_files() const override {
    ExportedFiles files{.copies = directory_.companions()};
    std::erase_if(files.copies, [](const auto& file) { return file.filename() == "config.json"; });
    files.texts["config.json"] = exported_config().dump(2) + "\n";
    return files;
  }

 private:
  // Over a large vocabulary it costs a pass over the logits.
  bool with_accuracy() const { return *config_.task == EncoderTask::Tokens || !is_training(); }

  nlohmann::ordered_json exported_config() const {
    auto json = json_;
    json["architectures"] = nlohmann::ordered_json::array({config_.architecture(*config_.task)});
    set_fp32_weights(json);
    json.erase("num_labels");
    json.erase("problem_type");
    if (*config_.task == EncoderTask::Mlm) return json;
    auto names = nlohmann::ordered_json::object(), numbers = names;
    for (size_t i = 0; i < config_.labels.size(); ++i) {
      names[std::to_string(i)] = config_.labels[i];
      numbers[config_.labels[i]] = i;
    }
    json["id2label"] = names;
    json["label2id"] = numbers;
    if (loss_) json["problem_type"] = name_of(problem_of_loss(loss_->name()));
    return json;
  }

  void find_weights() {
    weights_ = directory_.weights();
    TensorShapes shapes;
    for (const auto& item : named_parameters()) shapes[item.key()] = item.value().sizes().vec();
    stored_ = match_weights(shapes, stored_shapes(weights_), config_.root(),
                            printable(weights_.string(), 400));
  }

  // Those that are not in the file, with the deviations of transformers.
  void initialize(bool has_weights) {
    const at::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      const bool is_stored = has_weights && stored_.names.contains(item.key());
      auto& parameter = item.value();
      if (is_stored || parameter.dim() == 0) continue;
      if (parameter.dim() > 1)
        parameter.normal_(0, deviation_of(item.key()));
      else if (item.key().ends_with(".bias"))
        parameter.zero_();
    }
  }

  double deviation_of(const std::string& name) const {
    if (config_.family != EncoderFamily::ModernBert) return config_.init_deviation;
    if (name == "classifier.weight") return 1 / std::sqrt(static_cast<double>(config_.width));
    const bool is_output = name.ends_with(".Wo.weight") || name == "head.dense.weight";
    const auto depth = 2 * static_cast<double>(config_.layers);
    return is_output ? config_.init_deviation / std::sqrt(depth) : config_.init_deviation;
  }

  void verify_text(const Batch& batch) const {
    const auto& tokens_BT = batch.at("tokens");
    verify_tokens("tokens", tokens_BT, {config_.vocab_size, std::nullopt});
    const auto length = tokens_BT.size(1);
    if (length == 0 || length > config_.context)
      throw encoder_error(
          fmt::format("it takes up to {} tokens, but 'tokens' is {}; set the length of the samples",
                      config_.context, shape_text(tokens_BT)));
    for (const auto* name : {"attention_mask", "token_types"})
      if (const auto* field = batch.find(name); field && field->sizes() != tokens_BT.sizes())
        throw encoder_error(fmt::format("'{}' is {}, but 'tokens' is {}", name, shape_text(*field),
                                        shape_text(tokens_BT)));
    if (const auto* types = batch.find("token_types"); types && config_.token_types > 0)
      verify_tokens("token_types", *types, {config_.token_types, std::nullopt});
    const auto* targets = batch.find("targets");
    if (!targets || *config_.task != EncoderTask::Tokens || !targets->is_cpu()) return;
    if (targets->numel() > 0 && targets->max().item<int64_t>() >= std::ssize(config_.labels))
      throw encoder_error(fmt::format("'targets' has label {}, but there are {}; set model.labels",
                                      targets->max().item<int64_t>(), config_.labels.size()));
  }

  HfDirectory directory_;
  nlohmann::ordered_json json_;
  EncoderConfig config_;
  std::shared_ptr<EncoderBody> body_;
  std::unique_ptr<EncoderHead> head_;
  std::optional<LabelLoss> loss_;  // of task: classification
  std::filesystem::path weights_;  // empty: random ones
  StoredWeights stored_;
};

REGISTER_MODEL("hf_encoder", HfEncoder,
               "a BERT, RoBERTa or ModernBERT in Hugging Face's layout, to fine-tune or pretrain");

}  // namespace
}  // namespace lockstep::models
