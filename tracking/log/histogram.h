// Histograms for Tracker::histogram().
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/record.h"

namespace lockstep::tracking {

// `num_bins` bins of equal width from the smallest to the largest value. Ignores NaN and
// infinities; without a finite value, returns one empty bin from 0 to 1. Requires num_bins >= 1.
Histogram make_histogram(std::string name, int64_t step, std::span<const float> values,
                         int num_bins = 64);

}  // namespace lockstep::tracking
