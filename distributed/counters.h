// Merges metrics over all ranks, by name. Each rank contributes sums and counts ({"loss", 12.5 over
// 32 samples}), which one packed all-reduce of doubles adds up. Means are then weighted by samples,
// not by ranks or batches.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/world.h"

namespace lockstep::distributed {

// A sum and the number of summands. Counts are exact up to 2^53.
struct Counter {
  double sum = 0;
  double count = 0;

  double mean() const { return sum / count; }
};

using Counters = std::map<std::string, Counter>;

// Collective. Returns the sums of the counters over all ranks. Throws Config, with the difference,
// if names differ between ranks: summation by position would silently mix metrics.
Counters merge_counters(World& world, const Counters& counters);

}  // namespace lockstep::distributed
