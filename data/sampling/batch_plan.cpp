#include "data/sampling/batch_plan.h"

#include <fmt/format.h>

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

}  // namespace

BatchPlan plan_batches(const LoaderConfig& config, int64_t num_samples, RankCounts ranks) {
  check(ranks.world >= 1 && ranks.local >= 1 && ranks.local <= ranks.world,
        "impossible rank counts");
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
               .uneven = config.batch_remainder == BatchRemainder::Uneven};
  const BatchShares shares(num_samples, {.rank = 0, .world = ranks.world}, plan.rule);
  plan.per_rank_batch_size = shares.batch_size();
  plan.batches_per_epoch = shares.num_batches();
  if (plan.batches_per_epoch == 0)
    throw config_error(
        fmt::format("data.drop_last leaves no batch: {} samples are fewer than one global batch of "
                    "{}; set a smaller batch "
                    "size, or drop_last: false",
                    num_samples, plan.global_batch_size));
  return plan;
}

}  // namespace lockstep::data
