#include "data/batch_plan.h"

#include <fmt/format.h>

#include "core/error.h"
#include "data/sampler.h"

namespace lockstep {
namespace {

constexpr int64_t kDefaultBatchSize = 128;

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t split_over_ranks(int64_t batch_size, int64_t world) {
  const auto rest = batch_size % world;
  if (rest == 0) return batch_size / world;
  const auto below = batch_size - rest;
  const auto above = below + world;
  const auto nearest = below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
  throw config_error(fmt::format(
      "data.batch_size: {} samples do not divide over {} ranks; the nearest that do: {} (or set "
      "data.per_rank_batch_size instead)",
      batch_size, world, nearest));
}

int64_t per_rank_batch_size(const LoaderConfig& config, int64_t world) {
  if (config.batch_size && config.per_rank_batch_size)
    throw config_error(
        fmt::format("data.batch_size ({}, over all ranks) and data.per_rank_batch_size ({}) "
                    "exclude each other: give one",
                    *config.batch_size, *config.per_rank_batch_size));
  if (config.per_rank_batch_size) return *config.per_rank_batch_size;
  return split_over_ranks(config.batch_size.value_or(kDefaultBatchSize), world);
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
  plan.per_rank_batch_size = per_rank_batch_size(config, ranks.world);
  plan.global_batch_size = plan.per_rank_batch_size * ranks.world;
  plan.workers_per_rank = divide_up(config.workers, ranks.local);
  const DistributedSampler sampler(num_samples, {.rank = 0, .world = ranks.world},
                                   {.drop_last = config.drop_last});
  const auto mine = sampler.num_samples();
  plan.batches_per_epoch = config.drop_last ? mine / plan.per_rank_batch_size
                                            : divide_up(mine, plan.per_rank_batch_size);
  if (plan.batches_per_epoch == 0)
    throw config_error(
        fmt::format("data.drop_last leaves no batch: {} samples are fewer than one global batch of "
                    "{}; set a smaller batch "
                    "size, or drop_last: false",
                    num_samples, plan.global_batch_size));
  return plan;
}

}  // namespace lockstep
