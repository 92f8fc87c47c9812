// Decides at an evaluation whether a trial is stopped. Pure: a function of values that were logged,
// so that a sweep that continues decides again as before.
#pragma once

#include <string>
#include <vector>

#include "sweep/trial.h"

namespace lockstep::sweep {

// Why the trial is stopped at its last evaluation; empty: it continues. `own`: its evaluations so
// far, not empty. `others`: all other trials, running ones with their evaluations so far.
//
// asha: at a rung, the trial continues if it is among the best 1 / factor of all values that trials
// had there, at least the best one. Source: Li et al., "A system for massively parallel
// hyperparameter tuning" (MLSys 2020), without promotion of trials that were stopped.
// median: it is stopped if its best value so far is worse than the median of the values that
// finished trials had at the same evaluation. Source: Golovin et al., "Google Vizier" (KDD 2017).
// Both stop a trial whose value is not a number.
std::string why_pruned(const PruningConfig& config, const Objective& objective,
                       const std::vector<Evaluation>& own, const std::vector<Trial>& others);

}  // namespace lockstep::sweep
