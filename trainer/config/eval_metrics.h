// `train.eval_metrics`: what evaluations compute besides the metrics that the model returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"

namespace lockstep::trainer {

enum class Score {
  Accuracy,
  TopK,
  Precision,
  Recall,
  F1,
  RocAuc,
  AveragePrecision,
  MeanAbsoluteError,
  RootMeanSquaredError,
  R2,
  Perplexity,
  BitsPerByte
};

// How the values of several classes become one.
enum class Averaging { Macro, Micro, PerClass };

struct EvalMetric {
  std::string name;  // as in the run file
  Score score = Score::Accuracy;
  Averaging averaging = Averaging::Macro;
  int64_t k = 1;  // of TopK
};

constexpr const char* kEvalMetricsHelp =
    "metrics that evaluations compute besides those of the model, as eval/NAME: accuracy, top_5 "
    "(any number), precision, recall, f1, also with _micro or _per_class, roc_auc and "
    "average_precision, also with _per_class, mae, rmse, r2, perplexity, bits_per_byte";

}  // namespace lockstep::trainer

namespace lockstep {

template <>
struct ConfigValue<trainer::EvalMetric> {
  static trainer::EvalMetric read(const ConfigNode& node, const std::string& path);
  static Json dump(const trainer::EvalMetric& metric) { return metric.name; }
  static Json schema();
};

}  // namespace lockstep
