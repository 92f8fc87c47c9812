// Records the operators of some steps with their times (train.profile), as a trace that Perfetto and
// chrome://tracing open: <run directory>/profiles/rank-00000-steps-100-105.json.
#pragma once

#include "lockstep/hook.h"
#include "trainer/config/profile_config.h"

namespace lockstep::trainer {

// Throws Config if the steps or the ranks are not those of a run of `total_steps` steps. Requires
// `steps`.
void verify_profile(const ProfileConfig& config, int world_size, int64_t total_steps);

// Thread: the training thread.
class StepProfile final : public Hook {
 public:
  // Requires `steps`.
  StepProfile(const ProfileConfig& config, int rank);

  // A resumed run records the rest of the steps.
  void before_step(HookContext& run) override;
  void after_step(HookContext& run) override;
  // A run that ends or fails meanwhile: the steps until then.
  void after_run(HookContext& run) override { finish(run); }
  void on_failure(HookContext& run, const std::exception&) override { finish(run); }

 private:
  void finish(HookContext& run);

  StepRange steps_;
  bool is_recording_rank_;
  int64_t first_ = 0;  // step that is recorded; 0: none
};

}  // namespace lockstep::trainer
