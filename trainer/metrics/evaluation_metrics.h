// The metrics of train.eval_metrics: collected batch by batch, merged exactly over ranks. Each
// sample counts once, and the result has the same bits for any number of ranks.
// Shapes: N samples of a batch (or its targets, for text), K classes or values.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/world.h"
#include "trainer/config/eval_metrics.h"
#include "trainer/metrics/class_counts.h"

namespace lockstep::trainer {

// Metrics of one evaluation. Thread: the training thread.
class EvaluationMetrics {
 public:
  // The arguments outlive this. `with_confusion`: also fills confusion() where the data have at most
  // kMaxClasses classes.
  EvaluationMetrics(const std::vector<EvalMetric>& metrics, const Dataset& eval_set,
                    bool with_confusion = false);

  // Adds batch `number` of the dataset, which this rank has evaluated. Throws Config if a metric
  // cannot be computed from it.
  void add_batch(int64_t number, const Batch& batch, const Outputs& outputs);

  // The names of the results. Requires a batch.
  std::vector<std::string> names() const;

  // Collective, after the last batch: adds the metrics to `means`, those of the model, which have
  // precedence. `max_samples`: the maximum of a rank.
  void finish(World& world, int64_t num_batches, int64_t max_samples,
              std::map<std::string, double>& means);

  // After finish(): int64 [K, K] of all ranks; undefined: not counted.
  const at::Tensor& confusion() const { return confusion_; }

 private:
  static constexpr int64_t kIgnored = -100;  // a target of text that does not count
  static constexpr uint8_t kPadding = 2;     // a label that is not one
  // The columns of errors_, after the number of samples: for each value, these.
  enum Column : int64_t { kMean, kSquaresAroundMean, kSquaredError, kAbsoluteError, kColumns };
  enum class Kind { None, Classes, Labels, Values, Tokens };
  struct Targets {
    Kind kind = Kind::None;
    at::Tensor predictions, labels;  // [N, K]; [N] for classes and tokens, else [N, K]
    std::optional<int64_t> bytes;    // of the text of tokens, for bits_per_byte; nullopt: unknown
  };
  Targets targets_of(const Batch& batch, const Outputs& outputs) const;
  std::optional<int64_t> bytes_of(const Batch& batch, const Targets& tokens) const;
  bool has_any(std::initializer_list<Score> scores) const;
  void verify(const EvalMetric& metric, const Targets& targets, const Outputs& outputs) const;
  void verify_memory(const EvalMetric& metric, int64_t num_classes) const;
  void count_classes(const Targets& targets);
  void count_labels(const Targets& targets);
  void keep_scores(const Targets& targets);
  void measure_errors(int64_t number, const Targets& targets);
  void merge_counts(World& world);
  void merge_errors(World& world, int64_t num_batches);
  void rank_classes(World& world, int64_t max_samples);
  double error_of_values(Score score) const;
  std::vector<ClassCounts> class_counts() const;
  void add_class_values(std::map<std::string, double>& results, const EvalMetric& metric) const;
  std::string name_of_class(const EvalMetric& metric, int64_t number) const;

  const std::vector<EvalMetric>& metrics_;
  const Dataset& eval_set_;
  const int64_t num_samples_;
  std::vector<std::string> class_names_;  // may be empty
  const bool with_confusion_;
  Kind kind_ = Kind::None;
  int64_t width_ = 0;                     // K
  at::Tensor confusion_;                  // int64 [K, K]
  at::Tensor label_counts_;               // int64 [3, K]: actual, predicted, right
  std::vector<int64_t> counted_;          // samples, then the hits of each metric
  std::vector<at::Tensor> scores_;        // float [N, K] of each batch
  std::vector<at::Tensor> labels_;        // of each batch: int64 [N], or uint8 [N, K]
  std::map<int64_t, at::Tensor> errors_;  // of each batch: double [1 + 4 K]
  std::vector<std::array<double, kColumns>> total_errors_;  // of each value
  double num_measured_ = 0;
  std::vector<double> roc_auc_, average_precision_;  // of each class
};

}  // namespace lockstep::trainer
