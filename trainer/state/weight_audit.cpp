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
#include "trainer/state/optimizer_shard.h"

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

void verify_weight_audit(const AuditConfig& config, ShardStrategy shard) {
  if (config.every && shard == ShardStrategy::Full)
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
  NamedTensors replicas;
  for (const auto& parameter : run.model.named_parameters())
    replicas.emplace_back(parameter.key(), parameter.value());
  const auto num_weights = replicas.size();
  if (!optimizer_.is_sharded()) {
    const auto state = optimizer_.state();
    replicas.insert(replicas.end(), state.begin(), state.end());
  }
  std::vector<int64_t> own;
  for (const auto& [name, values] : replicas) own.push_back(checksum_of_values(values));
  const auto all = distributed::all_gather(run.world, at::tensor(own), "audit");
  const auto* const checksums = all.const_data_ptr<int64_t>();
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<int64_t> of_ranks;
    for (size_t rank = 0; rank < static_cast<size_t>(run.world.world_size()); ++rank)
      of_ranks.push_back(checksums[rank * own.size() + i]);
    if (std::ranges::count(of_ranks, of_ranks.front()) == run.world.world_size()) continue;
    throw environment_error(
        fmt::format("train.audit: the {} of the ranks differ after step {}: {}; first tensor: "
                    "{}. The last checkpoint is not affected",
                    i < num_weights ? "weights" : "optimizer states", run.step, describe(of_ranks),
                    replicas[i].first));
  }
}

}  // namespace lockstep::trainer
