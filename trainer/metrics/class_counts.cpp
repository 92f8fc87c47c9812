#include "trainer/metrics/class_counts.h"

#include <ATen/ATen.h>

namespace lockstep::trainer {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

double ClassCounts::value(Score score) const {
  if (score == Score::Precision) return ratio(right, predicted);
  if (score == Score::Recall) return ratio(right, actual);
  return ratio(2 * right, actual + predicted);
}

std::vector<ClassCounts> counts_of(const at::Tensor& confusion) {
  const auto rows = confusion.sum(1), columns = confusion.sum(0), right = confusion.diagonal();
  std::vector<ClassCounts> classes;
  for (int64_t i = 0; i < confusion.size(0); ++i)
    classes.push_back(
        {rows[i].item<int64_t>(), columns[i].item<int64_t>(), right[i].item<int64_t>()});
  return classes;
}

double macro_average(const std::vector<ClassCounts>& classes, Score score) {
  double sum = 0, met = 0;
  for (const auto& each : classes) {
    if (!each.is_met()) continue;
    sum += each.value(score);
    ++met;
  }
  return met > 0 ? sum / met : 0;
}

double micro_average(const std::vector<ClassCounts>& classes, Score score) {
  ClassCounts all;
  for (const auto& each : classes) {
    all.actual += each.actual;
    all.predicted += each.predicted;
    all.right += each.right;
  }
  return all.value(score);
}

void add_to_confusion(at::Tensor& confusion, const at::Tensor& predictions_NK,
                      const at::Tensor& labels_N) {
  const auto num_classes = predictions_NK.size(1);
  const auto pairs_N = labels_N * num_classes + predictions_NK.argmax(1);
  const auto counts = at::bincount(pairs_N, {}, num_classes * num_classes)
                          .view({num_classes, num_classes})
                          .to(at::kCPU);
  confusion = confusion.defined() ? confusion + counts : counts;
}

}  // namespace lockstep::trainer
