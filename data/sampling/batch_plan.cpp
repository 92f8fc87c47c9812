#include "data/sampling/batch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Samples per step, over all ranks.
int64_t global_batch_size(const LoaderConfig& config, int64_t world) {
  if (config.batch_size && config.per_rank_batch_size)
    throw config_error(
        fmt::format("data.batch_size ({}, over all ranks) and data.per_rank_batch_size ({}) "
                    "are mutually exclusive: set one",
                    *config.batch_size, *config.per_rank_batch_size));
  if (config.per_rank_batch_size && config.batch_remainder == BatchRemainder::Pad)
    throw config_error(
        "data.batch_remainder: pad has no effect with data.per_rank_batch_size: all ranks have the "
        "same number of samples");
  if (config.per_rank_batch_size) return *config.per_rank_batch_size * world;
  const auto size = config.batch_size.value_or(kDefaultBatchSize);
  if (config.batch_remainder == BatchRemainder::Refuse) {
    if (const auto problem = batch_size_problem(size, {world}); !problem.empty())
      throw config_error(problem);
  } else if (size < world) {
    throw config_error(
        fmt::format("data.batch_size: {} is less than the number of ranks, {}, each of which needs "
                    "a sample; start fewer ranks, or set at least {}",
                    size, world, world));
  }
  return size;
}

// With parts, batches are the same for any number of ranks.
void verify_parts(const LoaderConfig& config, int64_t world, int64_t parts) {
  const auto is_power = [](int64_t value) {
    return std::has_single_bit(static_cast<uint64_t>(value));
  };
  if (!is_power(parts) || !is_power(world) || parts < world)
    throw config_error(
        fmt::format("distributed.virtual_shards: {} on {} rank{}: both numbers must be powers of "
                    "two, and there must be at least one virtual shard per rank",
                    parts, world, world == 1 ? "" : "s"));
  if (config.per_rank_batch_size)
    throw config_error(
        "data.per_rank_batch_size depends on the number of ranks; with distributed.virtual_shards, "
        "set data.batch_size instead");
  if (config.batch_remainder != BatchRemainder::Refuse)
    throw config_error(
        "data.batch_remainder has no effect with distributed.virtual_shards: all parts of a batch "
        "are equal; remove this key");
  const auto size = config.batch_size.value_or(kDefaultBatchSize);
  if (size % parts != 0)
    throw config_error(
        fmt::format("data.batch_size: {} is not divisible by {} virtual shards; nearest valid "
                    "sizes: {}{}",
                    size, parts, size < parts ? "" : fmt::format("{} or ", size / parts * parts),
                    (size / parts + 1) * parts));
}

}  // namespace

BatchPlan plan_batches(const LoaderConfig& config, int64_t num_samples, RankCounts ranks,
                       int64_t parts) {
  check(ranks.world >= 1 && ranks.local >= 1 && ranks.local <= ranks.world,
        "impossible rank counts");
  if (parts > 0) verify_parts(config, ranks.world, parts);
  if (num_samples <= 0) throw config_error("data.train: the dataset is empty");
  if (num_samples < ranks.world)
    throw config_error(
        fmt::format("more ranks than samples: the training set has {} samples for {} ranks; start "
                    "at most {} ranks",
                    num_samples, ranks.world, num_samples));
  BatchPlan plan;
  plan.global_batch_size = global_batch_size(config, ranks.world);
  plan.workers_per_rank = divide_up(config.workers, ranks.local);
  plan.rule = {.batch_size = plan.global_batch_size,
               .drop_last = config.drop_last,
               .uneven = config.batch_remainder == BatchRemainder::Uneven,
               .parts = parts};
  const BatchShares shares(num_samples, {.rank = 0, .world = ranks.world}, plan.rule);
  plan.per_rank_batch_size = shares.batch_size();
  plan.batches_per_epoch = shares.num_batches();
  plan.num_samples = num_samples;
  if (plan.batches_per_epoch == 0)
    throw config_error(
        fmt::format("data.drop_last leaves no batch: {} samples are fewer than one global batch of "
                    "{}; set a smaller batch "
                    "size, or drop_last: false",
                    num_samples, plan.global_batch_size));
  return plan;
}

}  // namespace lockstep::data
