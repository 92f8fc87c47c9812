// Search with a Gaussian process: the next point is where the expected improvement over the best
// trial is largest. Sources: Jones, Schonlau, Welch, "Efficient global optimization of expensive
// black-box functions" (1998); logarithm of the improvement: Ament et al., "Unexpected improvements
// to expected improvement for Bayesian optimization" (2023).
//
// A value counts as at most four times as far from the median as the best one; one that is not a number
// counts as the worst, that of a pruned trial at least as the median. Several objectives are
// replaced by normal scores of the order of the trials (sweep/ranking.h). Numbers have a coordinate
// in (the logarithm of) their range, parameters whose conditions do not hold the middle of it. Of
// more than 250 trials, the best and the newest 125 are used.
#pragma once

#include <cstdint>
#include <vector>

#include "sweep/trial.h"

namespace lockstep::sweep {

// At least one trial must count. Open trials count as if they had the value predicted for them, so
// that parallel trials have different points; failed trials are ignored.
Point gp_point(const SweepFile& file, const std::vector<Trial>& trials, int64_t number);

}  // namespace lockstep::sweep
