// The hooks of a run besides the trainer's own: those of train.hooks, audits, profiles, and those
// of the embedding program.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/hook.h"

namespace lockstep::trainer {

struct PreparedRun;

// Throws Config if one of them does not fit the run.
void verify_hooks(const PreparedRun& run);

// New ones, for the ranks of `run`, and those of the program.
std::vector<std::shared_ptr<Hook>> build_hooks(const PreparedRun& run);

}  // namespace lockstep::trainer
