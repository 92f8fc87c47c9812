#include "trainer/prepared/run_hooks.h"

#include <algorithm>

#include "trainer/config/run_length.h"
#include "trainer/metrics/step_profile.h"
#include "trainer/prepared/prepared_run.h"
#include "trainer/state/weight_audit.h"

namespace lockstep::trainer {

void verify_hooks(const PreparedRun& run) {
  const auto& train = run.config.train;
  verify_weight_audit(train.audit, run.config.distributed.data_parallel.shard);
  if (train.profile.steps)
    verify_profile(train.profile, run.ranks.world_size, length_of_run(train, run.plan).total_steps);
}

std::vector<std::shared_ptr<Hook>> build_hooks(const PreparedRun& run) {
  const auto& train = run.config.train;
  std::vector<std::shared_ptr<Hook>> hooks;
  for (const auto& hook : train.hooks.parts()) hooks.push_back(hook.build());
  if (train.profile.steps)
    hooks.push_back(std::make_shared<StepProfile>(train.profile, run.ranks.rank));
  hooks.insert(hooks.end(), run.program_hooks.begin(), run.program_hooks.end());
  return hooks;
}

std::string_view name_of_hook(const PreparedRun& run, const Hook& hook) {
  const auto& parts = run.config.train.hooks.parts();
  for (size_t i = 0; i < std::min(parts.size(), run.hooks.size()); ++i)
    if (run.hooks[i].get() == &hook) return parts[i].name();
  return {};
}

}  // namespace lockstep::trainer
