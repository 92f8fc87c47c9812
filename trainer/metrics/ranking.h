// Metrics that compare the scores of all samples of a class with those of all others. Exact: they
// depend on the order of the scores only, with ties as in scikit-learn.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::trainer {

struct ScoredSample {
  float score;
  bool is_positive;
};

struct RankingScores {
  double roc_auc = 0;            // nan without positive or without other samples
  double average_precision = 0;  // nan without positive samples
};

// Both are nan if a score is nan.
RankingScores rank_samples(std::vector<ScoredSample> samples);

}  // namespace lockstep::trainer
