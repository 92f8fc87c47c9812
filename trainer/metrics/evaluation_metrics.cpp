#include "trainer/metrics/evaluation_metrics.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/error.h"
#include "trainer/metrics/dataset_metadata.h"

namespace lockstep::trainer {
namespace {

// Of text as bytes: tokens that are bytes; the token that ends a text follows.
constexpr int64_t kBytes = 256;
constexpr int64_t kMaxScoreBytes = int64_t{1} << 30;

bool is_ranking(Score score) { return score == Score::RocAuc || score == Score::AveragePrecision; }
bool is_class_score(Score score) {
  return score == Score::Precision || score == Score::Recall || score == Score::F1;
}
bool is_error(Score score) {
  return score == Score::MeanAbsoluteError || score == Score::RootMeanSquaredError ||
         score == Score::R2;
}

Error refused(const EvalMetric& metric, const std::string& why) {
  return config_error(fmt::format("train.eval_metrics: {} {}", metric.name, why));
}

bool has_integers(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

// The samples whose label is among the k greatest predictions.
int64_t hits(const at::Tensor& predictions_NK, const at::Tensor& labels_N, int64_t k) {
  const auto own_N1 = predictions_NK.gather(1, labels_N.unsqueeze(1));
  const auto above_N = predictions_NK.gt(own_N1).sum(1);
  return above_N.lt(k).logical_and(own_N1.squeeze(1).isnan().logical_not()).sum().item<int64_t>();
}

}  // namespace

EvaluationMetrics::EvaluationMetrics(const std::vector<EvalMetric>& metrics,
                                     const Dataset& eval_set, bool with_confusion)
    : metrics_(metrics),
      eval_set_(eval_set),
      num_samples_(eval_set.size()),
      with_confusion_(with_confusion),
      counted_(metrics.size() + 1, 0) {
  const auto metadata = metadata_of(eval_set, "data.eval");
  if (metadata.contains("classes"))
    class_names_ = metadata["classes"].get<std::vector<std::string>>();
}

bool EvaluationMetrics::has_any(std::initializer_list<Score> scores) const {
  return std::ranges::any_of(metrics_, [&](const EvalMetric& metric) {
    return std::ranges::find(scores, metric.score) != scores.end();
  });
}

// The model's own metrics tell what its loss takes numbers in "label" for.
EvaluationMetrics::Targets EvaluationMetrics::targets_of(const Batch& batch,
                                                         const Outputs& outputs) const {
  auto predictions = outputs.predictions;
  if (!predictions.defined()) return {};
  predictions = predictions.to(at::kFloat);
  const auto* label = batch.find("label");
  if (const auto* targets = batch.find("targets"); !label && targets && predictions.dim() == 3) {
    const auto labels_N = targets->reshape({-1});
    const auto counted_N = labels_N.ne(kIgnored);
    Targets tokens{Kind::Tokens, predictions.flatten(0, 1).index({counted_N}),
                   labels_N.index({counted_N}), std::nullopt};
    if (has_any({Score::BitsPerByte})) tokens.bytes = bytes_of(batch, tokens);
    return tokens;
  }
  if (!label || predictions.dim() < 1 || predictions.dim() > 2) return {};
  if (predictions.dim() == 1) predictions = predictions.unsqueeze(1);
  const bool is_column = label->dim() == 1 && label->size(0) == predictions.size(0);
  if (has_integers(*label) && is_column && predictions.size(1) > 1)
    return {Kind::Classes, predictions, label->to(at::kLong), std::nullopt};
  if (label->numel() != predictions.numel()) return {};
  const auto labels_NK = label->view_as(predictions);
  const bool is_either =
      has_integers(*label) || outputs.sums.contains("accuracy") ||
      (!outputs.sums.contains("mae") && has_any({Score::Precision, Score::Recall, Score::F1,
                                                 Score::RocAuc, Score::AveragePrecision}));
  return {is_either ? Kind::Labels : Kind::Values, predictions, labels_NK, std::nullopt};
}

// Counted by the dataset; without a tokenizer, tokens of text as bytes are bytes.
std::optional<int64_t> EvaluationMetrics::bytes_of(const Batch& batch,
                                                   const Targets& tokens) const {
  if (const auto bytes = eval_set_.count_target_bytes(batch)) return bytes;
  if (tokens.predictions.size(1) != kBytes + 1) return std::nullopt;
  return tokens.labels.lt(kBytes).sum().item<int64_t>();
}

void EvaluationMetrics::verify(const EvalMetric& metric, const Targets& targets,
                               const Outputs& outputs) const {
  if (outputs.sums.contains(metric.name)) return;  // the model's own
  const auto kind = targets.kind;
  if (metric.score == Score::Perplexity) {
    if (!outputs.targets.defined())
      throw refused(metric, "needs a language model: a loss that is a mean over tokens");
    return;
  }
  if (metric.score == Score::BitsPerByte) {
    if (!targets.bytes)
      throw refused(metric,
                    "needs a language model, and data that know their bytes: dataset chat, dataset "
                    "tokens with data.eval.tokenizer, dataset labeled_text with kind: masked, or a "
                    "vocabulary of 257 and text that `lockstep-data tokenize --bytes` wrote");
    return;
  }
  if (kind == Kind::None)
    throw refused(metric,
                  "needs a model that returns predictions, and labels of the data that fit them");
  const bool has_classes = kind == Kind::Classes || kind == Kind::Tokens;
  if (is_error(metric.score) && kind != Kind::Values)
    throw refused(metric, "needs a model for regression (loss mse, l1 or huber)");
  if (metric.score == Score::TopK) {
    if (!has_classes) throw refused(metric, "needs labels that are one of several classes");
    if (const auto classes = targets.predictions.size(1); metric.k >= classes)
      throw refused(metric, fmt::format("is always 1: the model has {} classes", classes));
  }
  if (kind == Kind::Values && !is_error(metric.score))
    throw refused(metric, "needs labels that are classes; the labels are values");
  if (is_class_score(metric.score) && has_classes && targets.predictions.size(1) > kMaxClasses)
    throw refused(metric, fmt::format("is for up to {} classes; the model has {}", kMaxClasses,
                                      targets.predictions.size(1)));
  if (!is_ranking(metric.score)) return;
  if (kind == Kind::Tokens) throw refused(metric, "needs one label per sample, not per token");
  verify_memory(metric, targets.predictions.size(1));
}

void EvaluationMetrics::verify_memory(const EvalMetric& metric, int64_t num_classes) const {
  const auto bytes = num_samples_ * num_classes * static_cast<int64_t>(sizeof(float));
  if (bytes <= kMaxScoreBytes) return;
  throw refused(metric,
                fmt::format("keeps the scores of all samples in memory: {} samples of {} "
                            "classes need {:.1f} GiB, and 1 GiB is the limit; set "
                            "data.eval.limit, or remove it",
                            num_samples_, num_classes, static_cast<double>(bytes) / (1 << 30)));
}

void EvaluationMetrics::add_batch(int64_t number, const Batch& batch, const Outputs& outputs) {
  if (metrics_.empty() && !with_confusion_) return;
  const auto targets = targets_of(batch, outputs);
  for (const auto& metric : metrics_) verify(metric, targets, outputs);
  if (metrics_.empty() && targets.kind != Kind::Classes) return;
  kind_ = targets.kind;
  if (kind_ == Kind::None) return;
  width_ = targets.predictions.size(1);
  if (kind_ == Kind::Values) return measure_errors(number, targets);
  if (kind_ == Kind::Labels)
    count_labels(targets);
  else
    count_classes(targets);
  if (has_any({Score::RocAuc, Score::AveragePrecision})) keep_scores(targets);
}

void EvaluationMetrics::count_classes(const Targets& targets) {
  const auto& [kind, predictions_NK, labels_N, bytes] = targets;
  counted_[0] += labels_N.size(0);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const auto score = metrics_[i].score;
    if (score == Score::TopK) counted_[i + 1] += hits(predictions_NK, labels_N, metrics_[i].k);
    if (score == Score::Accuracy)
      counted_[i + 1] += predictions_NK.argmax(1).eq(labels_N).sum().item<int64_t>();
    if (score == Score::BitsPerByte) counted_[i + 1] += bytes.value_or(0);
  }
  const bool is_needed = has_any({Score::Precision, Score::Recall, Score::F1});
  const bool is_shown = with_confusion_ && kind == Kind::Classes && width_ <= kMaxClasses;
  if (is_needed || is_shown) add_to_confusion(confusion_, predictions_NK, labels_N);
}

void EvaluationMetrics::count_labels(const Targets& targets) {
  const auto labels_NK = targets.labels.gt(0.5), predicted_NK = targets.predictions.gt(0);
  if (!metrics_.empty() && !targets.labels.eq(labels_NK.to(targets.labels)).all().item<bool>())
    throw refused(metrics_.front(), "needs labels of 0 and 1; the data have others");
  counted_[0] += labels_NK.size(0);
  const auto right = predicted_NK.eq(labels_NK).all(1).sum().item<int64_t>();
  for (size_t i = 0; i < metrics_.size(); ++i)
    if (metrics_[i].score == Score::Accuracy) counted_[i + 1] += right;
  const auto counts =
      at::stack({labels_NK.sum(0), predicted_NK.sum(0), labels_NK.logical_and(predicted_NK).sum(0)})
          .to(at::kCPU);
  label_counts_ = label_counts_.defined() ? label_counts_ + counts : counts;
}

void EvaluationMetrics::keep_scores(const Targets& targets) {
  const bool has_classes = targets.kind == Kind::Classes;
  scores_.push_back(
      (has_classes ? at::softmax(targets.predictions, 1) : targets.predictions).to(at::kCPU));
  labels_.push_back(
      (has_classes ? targets.labels : targets.labels.gt(0.5).to(at::kByte)).to(at::kCPU));
}

void EvaluationMetrics::measure_errors(int64_t number, const Targets& targets) {
  const auto labels_NK = targets.labels.to(at::kCPU, at::kDouble);
  const auto errors_NK = targets.predictions.to(at::kCPU, at::kDouble) - labels_NK;
  const auto mean_K = labels_NK.mean(0);
  const auto columns = at::stack({mean_K, (labels_NK - mean_K).square().sum(0),
                                  errors_NK.square().sum(0), errors_NK.abs().sum(0)},
                                 1);
  const auto count = at::full({1}, labels_NK.size(0), at::kDouble);
  errors_[number] = at::cat({count, columns.flatten()});
}

}  // namespace lockstep::trainer
