// Progress of training within a run. The same on every rank at every step boundary.
#pragma once

#include <cstdint>

namespace lockstep::trainer {

struct Position {
  int64_t step = 0;   // optimizer steps done
  int64_t epoch = 0;  // epochs done
  // Samples of the global order (data/sampling/sampler.h) done in the current epoch: a run resumed
  // on another number of ranks continues at the same sample.
  int64_t samples = 0;
  int64_t lanes = 0;  // part of the order of grouped samples, fixed when the run begins; 0: not yet

  bool operator==(const Position&) const = default;
};

}  // namespace lockstep::trainer
