// Merging the metrics of an evaluation over ranks.
#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "trainer/metrics/evaluation_metrics.h"
#include "trainer/metrics/ranking.h"

namespace lockstep::trainer {

std::string EvaluationMetrics::name_of_class(const EvalMetric& metric, int64_t number) const {
  constexpr std::string_view kSuffix = "_per_class";
  const auto i = static_cast<size_t>(number);
  return metric.name.substr(0, metric.name.size() - kSuffix.size()) + "/" +
         (i < class_names_.size() ? class_names_[i] : std::to_string(number));
}

std::vector<std::string> EvaluationMetrics::names() const {
  std::vector<std::string> names;
  for (const auto& metric : metrics_) {
    if (metric.averaging != Averaging::PerClass) {
      names.push_back(metric.name);
      continue;
    }
    for (int64_t i = 0; i < width_; ++i) names.push_back(name_of_class(metric, i));
  }
  return names;
}

void EvaluationMetrics::finish(World& world, int64_t num_batches, int64_t max_samples,
                               std::map<std::string, double>& means) {
  if (metrics_.empty() && !with_confusion_) return;
  // Rank 0 always has a batch.
  const auto known = distributed::broadcast_object(
      world, {static_cast<int>(kind_), width_, confusion_.defined()}, 0, "evaluation metrics");
  kind_ = static_cast<Kind>(known[0].get<int>());
  width_ = known[1].get<int64_t>();
  if (known[2].get<bool>() && !confusion_.defined())
    confusion_ = at::zeros({width_, width_}, at::kLong);
  if (kind_ == Kind::Values)
    merge_errors(world, num_batches);
  else
    merge_counts(world);
  if (has_any({Score::RocAuc, Score::AveragePrecision})) rank_classes(world, max_samples);
  std::map<std::string, double> results;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const auto& metric = metrics_[i];
    if (means.contains(metric.name)) continue;  // the model's own
    const auto counted = static_cast<double>(counted_[i + 1]);
    const auto all = static_cast<double>(counted_[0]);
    if (metric.score == Score::Perplexity)
      results[metric.name] = std::exp(means.at("loss"));
    else if (metric.score == Score::BitsPerByte)
      results[metric.name] = means.at("loss") / std::numbers::ln2 * all / counted;
    else if (kind_ == Kind::Values)
      results[metric.name] = error_of_values(metric.score);
    else if (metric.score == Score::Accuracy || metric.score == Score::TopK)
      results[metric.name] = counted / all;
    else
      add_class_values(results, metric);
  }
  means.merge(results);
}

void EvaluationMetrics::merge_counts(World& world) {
  auto counted = at::tensor(counted_, at::kLong);
  all_reduce(world, counted, distributed::ReduceOp::Sum, "evaluation metrics");
  const auto* begin = counted.const_data_ptr<int64_t>();
  counted_.assign(begin, begin + counted.numel());
  if (confusion_.defined())
    all_reduce(world, confusion_, distributed::ReduceOp::Sum, "confusion matrix");
  if (kind_ != Kind::Labels) return;
  if (!label_counts_.defined()) label_counts_ = at::zeros({3, width_}, at::kLong);
  all_reduce(world, label_counts_, distributed::ReduceOp::Sum, "evaluation metrics");
}

// In the order of the batches, so that sums do not depend on the ranks. Means and squares around
// them are merged as by Chan et al. (1979), which loses no digits.
void EvaluationMetrics::merge_errors(World& world, int64_t num_batches) {
  auto slots = at::zeros({num_batches, 1 + kColumns * width_}, at::kDouble);
  for (const auto& [number, errors] : errors_) slots[number].copy_(errors);
  all_reduce(world, slots, distributed::ReduceOp::Sum, "evaluation metrics");
  total_errors_.assign(static_cast<size_t>(width_), {});
  num_measured_ = 0;
  for (int64_t batch = 0; batch < num_batches; ++batch) {
    const auto* row = slots.const_data_ptr<double>() + batch * slots.size(1);
    const auto count = row[0], whole = num_measured_ + count;
    if (count == 0) continue;
    for (size_t i = 0; i < total_errors_.size(); ++i) {
      auto& total = total_errors_[i];
      const auto* value = row + 1 + kColumns * static_cast<int64_t>(i);
      const auto distance = value[kMean] - total[kMean];
      total[kMean] += distance * count / whole;
      total[kSquaresAroundMean] +=
          value[kSquaresAroundMean] + distance * distance * num_measured_ * count / whole;
      total[kSquaredError] += value[kSquaredError];
      total[kAbsoluteError] += value[kAbsoluteError];
    }
    num_measured_ = whole;
  }
}

// One class at a time, so that a rank holds the scores of all samples for one class only.
void EvaluationMetrics::rank_classes(World& world, int64_t max_samples) {
  const bool has_classes = kind_ == Kind::Classes;
  auto scores = at::zeros({max_samples, width_}, at::kFloat);
  auto labels = has_classes ? at::full({max_samples}, kIgnored, at::kLong)
                            : at::full({max_samples, width_}, kPadding, at::kByte);
  if (!scores_.empty()) {
    const auto own = at::cat(scores_);
    scores.narrow(0, 0, own.size(0)).copy_(own);
    labels.narrow(0, 0, own.size(0)).copy_(at::cat(labels_));
  }
  const auto gathered = [&](const at::Tensor& own) {
    return distributed::all_gather(world, own.contiguous(), "scores of an evaluation").flatten();
  };
  const auto classes_S = has_classes ? gathered(labels) : at::Tensor();
  for (int64_t k = 0; k < width_; ++k) {
    const auto scores_S = gathered(scores.select(1, k));
    const auto is_positive_S = has_classes ? classes_S.eq(k) : gathered(labels.select(1, k)).eq(1);
    const auto is_sample_S =
        has_classes ? classes_S.ne(kIgnored) : gathered(labels.select(1, k)).ne(kPadding);
    std::vector<ScoredSample> samples;
    for (int64_t i = 0; i < scores_S.numel(); ++i)
      if (is_sample_S.const_data_ptr<bool>()[i])
        samples.push_back(
            {scores_S.const_data_ptr<float>()[i], is_positive_S.const_data_ptr<bool>()[i]});
    const auto ranked = rank_samples(std::move(samples));
    roc_auc_.push_back(ranked.roc_auc);
    average_precision_.push_back(ranked.average_precision);
  }
}

double EvaluationMetrics::error_of_values(Score score) const {
  double sum = 0;
  for (const auto& total : total_errors_) {
    if (score == Score::MeanAbsoluteError) sum += total[kAbsoluteError] / num_measured_;
    if (score == Score::RootMeanSquaredError)
      sum += std::sqrt(total[kSquaredError] / num_measured_);
    if (score != Score::R2) continue;
    const auto error = total[kSquaredError], spread = total[kSquaresAroundMean];
    // Of equal labels as in scikit-learn: 1 if all are predicted exactly, else 0.
    if (spread > 0)
      sum += 1 - error / spread;
    else
      sum += error == 0 ? 1 : 0;
  }
  return sum / static_cast<double>(total_errors_.size());
}

std::vector<ClassCounts> EvaluationMetrics::class_counts() const {
  if (kind_ != Kind::Labels) return counts_of(confusion_);
  std::vector<ClassCounts> classes;
  for (int64_t k = 0; k < width_; ++k) {
    const auto counts = label_counts_.select(1, k);
    classes.push_back(
        {counts[0].item<int64_t>(), counts[1].item<int64_t>(), counts[2].item<int64_t>()});
  }
  return classes;
}

void EvaluationMetrics::add_class_values(std::map<std::string, double>& results,
                                         const EvalMetric& metric) const {
  const auto& [name, score, averaging, k] = metric;
  const bool is_ranking = score == Score::RocAuc || score == Score::AveragePrecision;
  const auto counts = is_ranking ? std::vector<ClassCounts>() : class_counts();
  std::vector<double> values;
  if (is_ranking) values = score == Score::RocAuc ? roc_auc_ : average_precision_;
  for (const auto& each : counts) values.push_back(each.value(score));
  if (averaging == Averaging::PerClass) {
    for (size_t i = 0; i < values.size(); ++i)
      results[name_of_class(metric, static_cast<int64_t>(i))] = values[i];
  } else if (averaging == Averaging::Micro) {
    results[name] = micro_average(counts, score);
  } else if (kind_ != Kind::Labels && !is_ranking) {
    results[name] = macro_average(counts, score);
  } else if (kind_ != Kind::Labels && values.size() == 2) {
    results[name] = values[1];  // the scores of two classes rank samples the same way
  } else {
    std::erase_if(values, [](double value) { return std::isnan(value); });
    results[name] =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
}

}  // namespace lockstep::trainer
