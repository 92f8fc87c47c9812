#include "trainer/state/weight_audit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/system/crc32c.h"
#include "distributed/collectives.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// The value that most ranks have, the lowest rank's among equally frequent ones.
int64_t most_frequent(const std::vector<int64_t>& of_ranks) {
  std::map<int64_t, int> counts;
  for (const auto value : of_ranks) ++counts[value];
  auto best = of_ranks.front();
  for (const auto value : of_ranks)
    if (counts[value] > counts[best]) best = value;
  return best;
}

// "rank 1 differs from the other ranks".
std::string describe(const std::vector<int64_t>& of_ranks) {
  const auto common = most_frequent(of_ranks);
  std::vector<int> differing;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank)
    if (of_ranks[rank] != common) differing.push_back(static_cast<int>(rank));
  if (of_ranks.size() == 2) return "ranks 0 and 1 differ";
  if (differing.size() == 1)
    return fmt::format("rank {} differs from the others", differing.front());
  return fmt::format("ranks {} differ from the others", fmt::join(differing, ", "));
}

}  // namespace

int64_t checksum_of_values(const at::Tensor& values) {
  const auto dense = values.detach().cpu().contiguous();
  return crc32c(dense.const_data_ptr(), dense.nbytes());
}

WeightAudit::WeightAudit(const AuditConfig& config, ShardStrategy shard) : config_(config) {
  if (shard == ShardStrategy::Full)
    throw config_error(
        "train.audit.every compares the weights of all ranks, but with distributed.shard: full "
        "each "
        "weight exists once; remove this key, or use distributed.shard: gradients");
}

void WeightAudit::after_step(HookContext& run) {
  if (run.step % *config_.every == 0) audit(run);
}

void WeightAudit::before_checkpoint(HookContext& run) {
  if (audited_step_ != run.step) audit(run);
}

void WeightAudit::audit(const HookContext& run) {
  audited_step_ = run.step;
  if (!run.world.is_distributed()) return;
  const auto parameters = run.model.named_parameters();
  std::vector<int64_t> own;
  for (const auto& parameter : parameters) own.push_back(checksum_of_values(parameter.value()));
  const auto all = distributed::all_gather(run.world, at::tensor(own), "audit");
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<int64_t> of_ranks;
    for (int64_t rank = 0; rank < run.world.world_size(); ++rank)
      of_ranks.push_back(all[rank][static_cast<int64_t>(i)].item<int64_t>());
    if (std::ranges::count(of_ranks, of_ranks.front()) == run.world.world_size()) continue;
    throw environment_error(
        fmt::format("train.audit: the weights of the ranks differ after step {}: {}; first tensor: "
                    "{}. The last checkpoint is not affected",
                    run.step, describe(of_ranks), parameters[i].key()));
  }
}

}  // namespace lockstep::trainer
