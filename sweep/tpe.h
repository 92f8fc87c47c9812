// The tree-structured Parzen estimator. Sources: Bergstra et al., "Algorithms for hyper-parameter
// optimization" (NIPS 2011), with the widths of its kernels; kernels over several parameters:
// Watanabe, "Tree-structured Parzen estimator: understanding its algorithm components" (2023).
//
// Trials are divided into the best tenth (at most 25) and the others. Of `candidates` points drawn
// from the density of the best, the one whose density there exceeds that of the others most is
// chosen. Parameters with the same conditions are drawn together.
#pragma once

#include <cstdint>
#include <vector>

#include "sweep/trial.h"

namespace lockstep::sweep {

// Open trials count among the others, so that parallel trials have different points; failed trials
// are ignored.
Point tpe_point(const SweepFile& file, const std::vector<Trial>& trials, int64_t number);

}  // namespace lockstep::sweep
