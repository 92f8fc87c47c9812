// The hooks of a run besides the trainer's own: those of train.hooks, audits, profiles, and those
// of the embedding program.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/hook.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {

struct PreparedRun;

// Throws Config if one of them does not fit the run.
void verify_hooks(const PreparedRun& run);

// New ones, for the ranks of `run`, and those of the program.
std::vector<std::shared_ptr<Hook>> build_hooks(const PreparedRun& run);

// The name of a hook of train.hooks; empty for others.
std::string_view name_of_hook(const PreparedRun& run, const Hook& hook);

// Calls `work`, a function of `hook`. Exceptions of hooks of train.hooks get their names.
template <class Work>
void in_hook(const PreparedRun& run, const Hook& hook, Work&& work) {
  in_part("hook", name_of_hook(run, hook), std::forward<Work>(work));
}

}  // namespace lockstep::trainer
