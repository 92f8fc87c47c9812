// Orders trials by their results.
#pragma once

#include <vector>

#include "sweep/trial.h"

namespace lockstep::sweep {

// The losses of a trial, one per objective: less is better, infinity where it is not a number.
std::vector<double> losses_of(const std::vector<Objective>& objectives, const Trial& trial);

// The finished trials that no other one is better than, by number: with one objective, the best
// (the earliest of equal ones). Empty if no trial has numbers.
std::vector<Trial> best_of(const std::vector<Objective>& objectives,
                           const std::vector<Trial>& trials);

// Places of those trials that count (Trial::counts), best first. One objective: finished trials by
// value, then pruned ones by their number of evaluations and last value. Several: by fronts, and
// within a front by crowding distance. Source: Deb et al., "A fast and elitist multiobjective genetic
// algorithm: NSGA-II" (2002).
std::vector<size_t> ranked(const std::vector<Objective>& objectives,
                           const std::vector<Trial>& trials);

}  // namespace lockstep::sweep
