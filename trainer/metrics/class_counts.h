// Precision, recall and F1 of classes, as scikit-learn defines them (zero_division=0).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/config/eval_metrics.h"

namespace lockstep::trainer {

// How often a class occurs, is predicted, and both.
struct ClassCounts {
  int64_t actual = 0, predicted = 0, right = 0;

  // `score`: Precision, Recall or F1.
  double value(Score score) const;
  bool is_met() const { return actual + predicted > 0; }
};

// Of a confusion matrix int64 [K, K] on the CPU: rows are labels, columns predictions.
std::vector<ClassCounts> counts_of(const at::Tensor& confusion);

// The mean over the classes that occur or are predicted; 0 if there are none.
double macro_average(const std::vector<ClassCounts>& classes, Score score);

// The value of the counts of all classes together.
double micro_average(const std::vector<ClassCounts>& classes, Score score);

// Adds to `confusion` (undefined: no sample yet) those of labels int64 [N] and predictions [N, K].
void add_to_confusion(at::Tensor& confusion, const at::Tensor& predictions,
                      const at::Tensor& labels);

// A confusion matrix has at most this many classes.
constexpr int64_t kMaxClasses = 1000;

}  // namespace lockstep::trainer
