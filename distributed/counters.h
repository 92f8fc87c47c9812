// Merges metrics over all ranks, by name. Each rank contributes sums and counts ({"loss", 12.5 over
// 32 samples}), which are gathered in one packed array of doubles and added in the order of the ranks.
// Means are then weighted by samples, not by ranks or batches.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

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

struct Merged {
  Counters counters;
  std::vector<std::vector<double>> rows;  // of each rank
};

// Collective. As above, and gathers `row`, which has the same length on all ranks, in the same message.
Merged merge_counters(World& world, const Counters& counters, std::span<const double> row);

}  // namespace lockstep::distributed
