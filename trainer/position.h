// Where in a run training is. The same on every rank at every step boundary.
#pragma once

#include <cstdint>

namespace lockstep {

struct Position {
  int64_t step = 0;   // optimizer steps done
  int64_t epoch = 0;  // epochs done
  int64_t batch = 0;  // batches of each rank done in the epoch after those

  bool operator==(const Position&) const = default;
};

}  // namespace lockstep
