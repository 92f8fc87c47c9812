// Sums over all ranks, by name: how metrics meet. Each rank adds what it saw ({"loss", 12.5 over 32
// samples}); one packed all-reduce of doubles joins them. Means are then weighted by samples, not
// by ranks or batches.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/world.h"

namespace lockstep::distributed {

// A sum and what it is over. Counts are exact up to 2^53.
struct Counter {
  double sum = 0;
  double count = 0;

  double mean() const { return sum / count; }
};

using Counters = std::map<std::string, Counter>;

// Collective. Returns the counters added up over all ranks.
// Throws Config when the ranks do not bring the same names (the difference is named): adding up by
// position would silently mix metrics.
Counters merge_counters(World& world, const Counters& counters);

}  // namespace lockstep::distributed
