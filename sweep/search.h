// The next point of a sweep.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sweep/trial.h"

namespace lockstep::sweep {

// The point that search.name chooses for trial `number`: a function of the file, the number, and the
// trials before it (in ascending order; open ones are known by their parameters only). nullopt if a
// grid has no more points.
std::optional<Point> next_point(const SweepFile& file, const std::vector<Trial>& trials,
                                int64_t number);

// Every point of the grid; ranges without steps have `points` values. Throws Config if there are
// more than a million.
std::vector<Point> grid_of(const Space& space);

}  // namespace lockstep::sweep
