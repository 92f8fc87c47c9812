#include "trainer/prepared/shard_choice.h"

#include <fmt/format.h>

#include "lockstep/error.h"
#include "trainer/prepared/block_units.h"

namespace lockstep::trainer {

namespace {

// Why the hosts of a hierarchical backend cannot each divide the same state.
std::optional<std::string> reason_against_hosts(const RankLayout& ranks) {
  if (!ranks.has_copy_per_host()) return std::nullopt;
  if (ranks.local_world_size == 1)
    return "with distributed.backend: hierarchical, the ranks of a host divide the state, but each "
           "host has one rank";
  if (ranks.world_size % ranks.local_world_size != 0)
    return fmt::format(
        "with distributed.backend: hierarchical, hosts need equal numbers of ranks, but this one "
        "has {} of {}",
        ranks.local_world_size, ranks.world_size);
  return std::nullopt;
}

}  // namespace

RankLayout layout_of(const PreparedRun& run) {
  const auto& config = run.config.distributed;
  return {.on_cpu = !selects_gpu(config.device),
          .world_size = run.ranks.world_size,
          .local_world_size = run.ranks.local_world_size,
          .backend = config.backend};
}

std::optional<ShardRefusal> refuse_shards(const PreparedRun& run, const Optimizer& optimizer,
                                          ShardStrategy strategy) {
  if (strategy == ShardStrategy::None) return std::nullopt;
  const auto& config = run.config.distributed;
  if (optimizer.has_evaluation_weights())
    return ShardRefusal{fmt::format("optimizer '{}' evaluates other weights than it trains",
                                    run.config.optimizer.name())};
  if (!optimizer.is_elementwise())
    return ShardRefusal{
        fmt::format("optimizer '{}' is not elementwise, so it cannot update slices "
                    "of the parameters",
                    run.config.optimizer.name())};
  if (!distributed::shards_gradients(strategy) || run.ranks.world_size == 1) return std::nullopt;
  if (const auto option = distributed::reducer_option(config.data_parallel))
    return ShardRefusal{fmt::format("{} is not supported with it", *option),
                        ShardStrategy::Optimizer};
  const auto ranks = layout_of(run);
  if (const auto reason = reason_against_hosts(ranks))
    return ShardRefusal{*reason, ShardStrategy::Optimizer};
  if (ranks.shares_memory() || ranks.has_copy_per_host()) return std::nullopt;
  if (run.config.train.cuda_graph)
    return ShardRefusal{"train.cuda_graph is not supported with it", ShardStrategy::Optimizer};
  if (run.config.tracking.media.histograms)
    return ShardRefusal{"tracking.media.histograms needs whole weights and gradients",
                        ShardStrategy::Optimizer};
  if (strategy == ShardStrategy::Gradients) return std::nullopt;
  if (run.model->has_backward() && shard_units(*run.model).empty())
    return ShardRefusal{
        "the package needs all of its weights at once, unless it is compiled with "
        "lockstep-compile --segments blocks",
        ShardStrategy::Gradients};
  if (const auto reason = distributed::reason_against_units(*run.model, shard_units(*run.model)))
    return ShardRefusal{*reason, ShardStrategy::Gradients};
  return std::nullopt;
}

ShardStrategy choose_shards(const PreparedRun& run) {
  const auto wanted = run.config.distributed.data_parallel.shard;
  if (wanted == ShardStrategy::None) return wanted;
  const auto optimizer = run.config.optimizer.build({});
  if (wanted == ShardStrategy::Auto) {
    const bool is_possible = !refuse_shards(run, *optimizer, ShardStrategy::Full);
    if (is_possible && layout_of(run).shares_memory()) return ShardStrategy::Full;
    return refuse_shards(run, *optimizer, ShardStrategy::Optimizer) ? ShardStrategy::None
                                                                    : ShardStrategy::Optimizer;
  }
  if (const auto refused = refuse_shards(run, *optimizer, wanted))
    throw config_error(fmt::format("distributed.shard: {}: {}; use distributed.shard: {}",
                                   name_of(wanted), refused->reason, name_of(refused->nearest)));
  return wanted;
}

}  // namespace lockstep::trainer
