#include "trainer/commands/plan/run_plan.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "distributed/gradients/gradient_buckets.h"
#include "lockstep/named_tensors.h"
#include "tracking/system/free_memory.h"
#include "trainer/commands/plan/planned_sizes.h"
#include "trainer/config/run_length.h"
#include "trainer/prepared/shard_choice.h"

namespace lockstep::trainer {
namespace {

bool has_samples(const PreparedRun& run) { return !run.missing || run.missing->has_train; }

Json plan_samples(const PreparedRun& run) {
  if (!has_samples(run))
    return {{"samples", nullptr},
            {"samples_per_rank", nullptr},
            {"repeated", nullptr},
            {"left_out", nullptr},
            {"evaluation_samples", nullptr}};
  const auto& plan = run.plan;
  const auto& [train_set, eval_set] = run.data;
  const data::BatchShares shares(train_set->size(), {.rank = 0, .world = run.ranks.world_size},
                                 plan.rule);
  const auto last = plan.batches_per_epoch - 1;
  const auto trained = last * shares.counted_by_all(0) + shares.counted_by_all(last);
  const auto used = std::min(train_set->size(), plan.batches_per_epoch * plan.global_batch_size);
  return {{"samples", train_set->size()},
          {"samples_per_rank", shares.num_samples()},
          {"repeated", trained - used},
          {"left_out", train_set->size() - used},
          {"evaluation_samples", eval_set ? Json(eval_set->size()) : Json(nullptr)}};
}

Json plan_data(const PreparedRun& run) {
  const auto& plan = run.plan;
  const auto accumulate = run.config.train.accumulate;
  const auto parts = std::max<int64_t>(1, plan.rule.parts / run.ranks.world_size);  // of a rank
  auto data = plan_samples(run);
  data.update({{"batch_size", plan.global_batch_size},
               {"batch_size_per_rank", plan.per_rank_batch_size * parts},
               {"uneven", plan.rule.uneven && plan.global_batch_size % run.ranks.world_size != 0},
               {"accumulate", accumulate},
               {"samples_per_step", plan.global_batch_size * accumulate},
               {"workers_per_rank", plan.workers_per_rank}});
  data["missing"] = run.missing ? Json(run.missing->path) : Json(nullptr);
  data["assumed"] = has_samples(run) ? Json(nullptr) : Json(run.missing->assumed);
  return data;
}

// At the first step, at a quarter, half and three quarters of the run, and at the last step.
Json plan_learning_rate(const RunConfig& config, double base_lr, const ScheduleSpan& length) {
  const auto schedule = config.schedule.build(length);
  auto rates = Json::array();
  int64_t last = -1;
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const auto step = std::max<int64_t>(0, (length.total_steps - 1) * quarter / 4);
    if (step == last) continue;
    last = step;
    rates.push_back({{"step", step + 1}, {"lr", base_lr * schedule->factor(step)}});
  }
  return rates;
}

// Without data, train.max_steps is all that is known of the length of a run.
Json plan_steps(const PreparedRun& run, double base_lr) {
  const auto& config = run.config;
  if (has_samples(run)) {
    const auto length = length_of_run(config.train, run.plan);
    return {{"steps", {{"per_epoch", length.steps_per_epoch}, {"total", length.total_steps}}},
            {"learning_rate", plan_learning_rate(config, base_lr, length)}};
  }
  const auto max_steps = config.train.max_steps;
  Json result = {{"steps", {{"per_epoch", nullptr}, {"total", nullptr}}},
                 {"learning_rate", Json::array()}};
  if (!max_steps) return result;
  result["steps"]["total"] = *max_steps;
  const auto rates_with = [&](int64_t per_epoch) {
    return plan_learning_rate(config, base_lr,
                              {.total_steps = *max_steps, .steps_per_epoch = per_epoch});
  };
  // Those of a schedule that counts epochs are not known.
  if (auto rates = rates_with(1); rates == rates_with(*max_steps))
    result["learning_rate"] = std::move(rates);
  return result;
}

int64_t num_parameters(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

int64_t count_numbers(const NamedTensors& tensors) {
  int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

// The memory and traffic of each strategy per rank, and why it is not possible.
Json plan_strategies(const PreparedRun& run, const PlannedSizes& sizes,
                     const Optimizer& optimizer) {
  const auto free = tracking::free_memory().bytes / static_cast<size_t>(run.ranks.local_world_size);
  Json result = {{"free", free}, {"fits", nullptr}, {"strategies", Json::array()}};
  for (const auto strategy : {ShardStrategy::None, ShardStrategy::Optimizer,
                              ShardStrategy::Gradients, ShardStrategy::Full}) {
    const auto memory = plan_memory(sizes, strategy);
    const auto bytes = memory["bytes"].get<size_t>();
    const auto traffic = plan_traffic(sizes, strategy);
    const auto refused = refuse_shards(run, optimizer, strategy);
    result["strategies"].push_back({{"name", name_of(strategy)},
                                    {"bytes", bytes},
                                    {"memory", memory},
                                    {"sent_per_rank", traffic.per_rank},
                                    {"sent_per_host", traffic.per_host},
                                    {"refused", refused ? Json(refused->reason) : Json(nullptr)}});
    if (!refused && bytes <= free && result["fits"].is_null()) result["fits"] = name_of(strategy);
  }
  return result;
}

Json plan_gradients(const PreparedRun& run, const PlannedSizes& sizes,
                    const NamedTensors& trained) {
  const auto& parallel = run.config.distributed.data_parallel;
  const auto traffic = plan_traffic(sizes, parallel.shard);
  return {{"buckets", distributed::expected_bucket_bytes(trained, parallel)},
          {"shares_memory", sizes.shares_memory},
          {"sent_per_rank", traffic.per_rank},
          {"sent_per_host", traffic.per_host}};
}

}  // namespace

Json plan_run(const PreparedRun& run, const Activations& activations, bool has_copies) {
  const auto& config = run.config;
  const int64_t world = run.ranks.world_size;
  const auto trained = trainable_parameters(*run.model);
  const auto optimizer = config.optimizer.build({});
  Json result = {{"ranks", {{"world", world}, {"per_node", run.ranks.local_world_size}}}};
  result["data"] = plan_data(run);
  result.update(plan_steps(run, optimizer->base_lr()));
  result["model"] = {{"name", config.model.name()},
                     {"parameters", num_parameters(*run.model)},
                     {"trained", count_numbers(trained)}};
  auto sizes = sizes_of(run, trained, activations);
  sizes.has_copies = has_copies;
  result["memory"] = plan_memory(sizes, config.distributed.data_parallel.shard);
  result["activations"] = {{"bytes", activations.bytes ? Json(*activations.bytes) : Json(nullptr)},
                           {"measured", activations.is_measured},
                           {"note", activations.note}};
  if (world > 1) {
    result["sharding"] = plan_strategies(run, sizes, *optimizer);
    result["gradients"] = plan_gradients(run, sizes, trained);
  }
  return result;
}

}  // namespace lockstep::trainer
