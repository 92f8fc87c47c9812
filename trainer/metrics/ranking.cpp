#include "trainer/metrics/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::trainer {

RankingScores rank_samples(std::vector<ScoredSample> samples) {
  constexpr auto kUndefined = std::numeric_limits<double>::quiet_NaN();
  const auto has_nan = [](const ScoredSample& sample) { return std::isnan(sample.score); };
  if (std::ranges::any_of(samples, has_nan)) return {kUndefined, kUndefined};
  std::ranges::sort(samples, std::ranges::greater(), &ScoredSample::score);
  double positives = 0, others = 0, twice_in_order = 0, precision_sum = 0;
  for (size_t i = 0; i < samples.size();) {
    double tied_positives = 0, tied_others = 0;
    const auto score = samples[i].score;
    for (; i < samples.size() && samples[i].score == score; ++i)
      (samples[i].is_positive ? tied_positives : tied_others) += 1;
    // Pairs of a positive sample and another one: 2 if the positive one is above, 1 if tied.
    twice_in_order += tied_others * (2 * positives + tied_positives);
    positives += tied_positives;
    others += tied_others;
    precision_sum += tied_positives * positives / (positives + others);
  }
  return {positives > 0 && others > 0 ? twice_in_order / (2 * positives * others) : kUndefined,
          positives > 0 ? precision_sum / positives : kUndefined};
}

}  // namespace lockstep::trainer
