#include "trainer/prepared/shard_choice.h"

#include <fmt/format.h>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/error.h"

namespace lockstep::trainer {

std::optional<ShardRefusal> refuse_shards(const PreparedRun& run, const Optimizer& optimizer,
                                          ShardStrategy strategy) {
  if (strategy == ShardStrategy::None) return std::nullopt;
  const auto& config = run.config.distributed;
  if (!optimizer.is_elementwise())
    return ShardRefusal{fmt::format("optimizer '{}' is not elementwise, so it cannot update slices "
                                    "of the parameters",
                                    run.config.optimizer.name())};
  if (!distributed::shards_gradients(strategy) || run.ranks.world_size == 1) return std::nullopt;
  const auto reason = distributed::reason_against_per_host(
      {.on_cpu = !selects_gpu(config.device),
       .on_one_host = run.ranks.local_world_size == run.ranks.world_size,
       .backend = config.backend},
      config.data_parallel);
  if (!reason) return std::nullopt;
  return ShardRefusal{*reason, ShardStrategy::Optimizer};
}

ShardStrategy choose_shards(const PreparedRun& run) {
  const auto wanted = run.config.distributed.data_parallel.shard;
  if (wanted == ShardStrategy::None) return wanted;
  const auto optimizer = run.config.optimizer.build({});
  if (wanted == ShardStrategy::Auto) {
    const auto refused = refuse_shards(run, *optimizer, ShardStrategy::Full);
    return refused ? refused->nearest : ShardStrategy::Full;
  }
  if (const auto refused = refuse_shards(run, *optimizer, wanted))
    throw config_error(fmt::format("distributed.shard: {}: {}; use distributed.shard: {}",
                                   name_of(wanted), refused->reason, name_of(refused->nearest)));
  return wanted;
}

}  // namespace lockstep::trainer
