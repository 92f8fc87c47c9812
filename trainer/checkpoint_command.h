// `lockstep ckpt`: looks at the checkpoints of runs, and changes nothing.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct CommandAnswer {
  std::string text;   // for standard output
  int exit_code = 0;  // verify: 75 when one is damaged; diff: 1 when they differ
};

// `words`: what stands behind `lockstep ckpt`. Throws Config for words that mean nothing and for
// runs and checkpoints that are not there; Environment for damaged ones that diff is to compare.
CommandAnswer checkpoint_command(const std::vector<std::string>& words);

}  // namespace lockstep
