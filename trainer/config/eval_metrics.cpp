#include "trainer/config/eval_metrics.h"

#include <algorithm>
#include <charconv>

namespace lockstep::trainer {
namespace {

std::vector<EvalMetric> known_metrics() {
  return {{.name = "accuracy", .score = Score::Accuracy},
          {.name = "precision", .score = Score::Precision},
          {"precision_micro", Score::Precision, Averaging::Micro},
          {"precision_per_class", Score::Precision, Averaging::PerClass},
          {.name = "recall", .score = Score::Recall},
          {"recall_micro", Score::Recall, Averaging::Micro},
          {"recall_per_class", Score::Recall, Averaging::PerClass},
          {.name = "f1", .score = Score::F1},
          {"f1_micro", Score::F1, Averaging::Micro},
          {"f1_per_class", Score::F1, Averaging::PerClass},
          {.name = "roc_auc", .score = Score::RocAuc},
          {"roc_auc_per_class", Score::RocAuc, Averaging::PerClass},
          {.name = "average_precision", .score = Score::AveragePrecision},
          {"average_precision_per_class", Score::AveragePrecision, Averaging::PerClass},
          {.name = "mae", .score = Score::MeanAbsoluteError},
          {.name = "rmse", .score = Score::RootMeanSquaredError},
          {.name = "r2", .score = Score::R2},
          {.name = "perplexity", .score = Score::Perplexity},
          {.name = "bits_per_byte", .score = Score::BitsPerByte}};
}

// 0: `name` is not "top_" and a number from 1 to 99999.
int64_t k_of(const std::string& name) {
  constexpr size_t kPrefix = 4, kMaxDigits = 5;
  if (!name.starts_with("top_") || name.size() > kPrefix + kMaxDigits || name[kPrefix] == '0')
    return 0;
  int64_t k = 0;
  const auto* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + kPrefix, end, k);
  return stopped == end && error == std::errc() ? k : 0;
}

}  // namespace
}  // namespace lockstep::trainer

namespace lockstep {

using trainer::EvalMetric;

EvalMetric ConfigValue<EvalMetric>::read(const ConfigNode& node, const std::string& path) {
  const auto name = ConfigValue<std::string>::read(node, path);
  if (const auto k = trainer::k_of(name); k > 0)
    return {.name = name, .score = trainer::Score::TopK, .k = k};
  const auto metrics = trainer::known_metrics();
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.name);
  names.emplace_back("top_5");
  const auto chosen = read_choice(node, path, names);
  return chosen < metrics.size() ? metrics[chosen] : EvalMetric{.name = name};
}

Json ConfigValue<EvalMetric>::schema() {
  auto names = Json::array();
  for (const auto& metric : trainer::known_metrics()) names.push_back(metric.name);
  return {{"anyOf", Json::array({Json{{"type", "string"}, {"enum", names}},
                                 Json{{"type", "string"}, {"pattern", "^top_[1-9][0-9]{0,4}$"}}})}};
}

}  // namespace lockstep
