#include "trainer/commands/run_plan.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/config/size_text.h"
#include "distributed/gradients/gradient_buckets.h"
#include "distributed/sharding/shard_strategy.h"
#include "lockstep/named_tensors.h"
#include "tracking/system/free_memory.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/run_length.h"
#include "trainer/loop/trial.h"
#include "trainer/prepared/shard_choice.h"

namespace lockstep::trainer {
namespace {

// Gradients are exchanged in units of about a bucket.
constexpr size_t kUnitBytes = size_t{25} << 20;

Json plan_data(const PreparedRun& run) {
  const auto& plan = run.plan;
  const auto& [train_set, eval_set] = run.data;
  const int64_t world = run.ranks.world_size;
  const auto accumulate = run.config.train.accumulate;
  const data::BatchShares shares(train_set->size(), {.rank = 0, .world = world}, plan.rule);
  const auto last = plan.batches_per_epoch - 1;
  const auto trained = last * shares.counted_by_all(0) + shares.counted_by_all(last);
  const auto used = std::min(train_set->size(), plan.batches_per_epoch * plan.global_batch_size);
  return {{"samples", train_set->size()},
          {"samples_per_rank", shares.num_samples()},
          {"repeated", trained - used},
          {"left_out", train_set->size() - used},
          {"evaluation_samples", eval_set ? Json(eval_set->size()) : Json(nullptr)},
          {"batch_size", plan.global_batch_size},
          {"batch_size_per_rank", plan.per_rank_batch_size},
          {"uneven", plan.rule.uneven && plan.global_batch_size % world != 0},
          {"accumulate", accumulate},
          {"samples_per_step", plan.global_batch_size * accumulate},
          {"workers_per_rank", plan.workers_per_rank}};
}

// At the first step, at a quarter, half and three quarters of the run, and at the last step.
Json plan_learning_rate(const RunConfig& config, const Optimizer& optimizer,
                        const ScheduleSpan& length) {
  const auto schedule = config.schedule.build(length);
  auto rates = Json::array();
  int64_t last = -1;
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const auto step = std::max<int64_t>(0, (length.total_steps - 1) * quarter / 4);
    if (step == last) continue;
    last = step;
    rates.push_back({{"step", step + 1}, {"lr", optimizer.base_lr() * schedule->factor(step)}});
  }
  return rates;
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

// Measured after a step with learning rate 0: some optimizers allocate state in the first step.
size_t bytes_of_state(Optimizer& optimizer, const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters)
    at::Tensor(parameter).mutable_grad() = at::zeros_like(parameter);
  optimizer.step(0);
  return bytes_of(optimizer.state());
}

// Bytes of the whole run, and what divides them.
struct Sizes {
  size_t weights = 0, trained = 0, state = 0, average = 0;
  size_t world = 1, writers = 1;
  RankLayout ranks;
  bool has_snapshot = false;

  size_t checkpoint() const { return weights + state + average; }
};

Sizes sizes_of(const PreparedRun& run, const NamedTensors& trained, Optimizer& optimizer) {
  const auto& config = run.config;
  const auto world = static_cast<size_t>(run.ranks.world_size);
  const auto weights = bytes_of(tensors_of(*run.model));
  return {.weights = weights,
          .trained = bytes_of(trained),
          .state = bytes_of_state(optimizer, trained),
          .average = config.train.ema.decay ? weights : 0,
          .world = world,
          .writers = config.checkpoint.writers == WritingRanks::All ? world : 1,
          .ranks = layout_of(run),
          .has_snapshot = config.checkpoint.async};
}

// Per rank. With shared memory, a rank's part of what all ranks of a host have once.
Json plan_memory(const Sizes& sizes, ShardStrategy strategy) {
  const auto share_if = [&](bool is_sharded, size_t bytes) {
    const auto shares = static_cast<size_t>(sizes.ranks.num_dividing(strategy));
    return is_sharded ? (bytes + shares - 1) / shares : bytes;
  };
  const bool is_full = strategy == ShardStrategy::Full;
  const bool has_units = distributed::shards_gradients(strategy) && sizes.world > 1;
  return {{"weights", share_if(is_full, sizes.weights)},
          {"gradients", share_if(has_units, sizes.trained)},
          {"in_flight", has_units ? std::min(sizes.trained, 2 * kUnitBytes) : 0},
          {"optimizer", share_if(strategy != ShardStrategy::None, sizes.state)},
          {"average", share_if(is_full, sizes.average)},
          {"snapshot", sizes.has_snapshot ? sizes.checkpoint() / sizes.writers : 0},
          {"checkpoint", sizes.checkpoint()}};
}

size_t total_of(const Json& memory) {
  size_t total = 0;
  for (const auto* part : {"weights", "gradients", "in_flight", "optimizer", "average", "snapshot"})
    total += memory[part].get<size_t>();
  return total;
}

// The memory that each strategy needs per rank, and why it is not possible.
Json plan_strategies(const PreparedRun& run, const Sizes& sizes, const Optimizer& optimizer) {
  const auto free = tracking::free_memory().bytes / static_cast<size_t>(run.ranks.local_world_size);
  Json result = {{"free", free}, {"fits", nullptr}, {"strategies", Json::array()}};
  for (const auto strategy : {ShardStrategy::None, ShardStrategy::Optimizer,
                              ShardStrategy::Gradients, ShardStrategy::Full}) {
    auto its = sizes;
    if (strategy == ShardStrategy::Full) its.writers = its.world;
    const auto bytes = total_of(plan_memory(its, strategy));
    const auto refused = refuse_shards(run, optimizer, strategy);
    result["strategies"].push_back({{"name", name_of(strategy)},
                                    {"bytes", bytes},
                                    {"refused", refused ? Json(refused->reason) : Json(nullptr)}});
    if (!refused && bytes <= free && result["fits"].is_null()) result["fits"] = name_of(strategy);
  }
  return result;
}

// Per rank and step, times W / (W - 1). An all-reduce sends gradients twice, a reduce-scatter once.
// With sharding, updated weights are gathered once, unless ranks share them; before the forward and
// before the backward pass if they are gathered block by block.
size_t bytes_sent(ShardStrategy strategy, bool shares_memory, size_t gradients, size_t weights) {
  switch (strategy) {
    case ShardStrategy::Optimizer: return 2 * gradients + weights;
    case ShardStrategy::Gradients: return gradients + weights;
    case ShardStrategy::Full: return gradients + (shares_memory ? 0 : 2 * weights);
    default: return 2 * gradients;
  }
}

Json plan_gradients(const PreparedRun& run, const NamedTensors& trained) {
  const auto& config = run.config;
  const int64_t world = run.ranks.world_size;
  const auto& parallel = config.distributed.data_parallel;
  const auto buckets = distributed::expected_bucket_bytes(trained, parallel);
  size_t bytes = 0;
  for (const auto bucket : buckets) bytes += bucket;
  if (parallel.gradient_compression != GradientCompression::None) bytes /= 2;
  const auto ranks = layout_of(run);
  auto sent = bytes_sent(parallel.shard, ranks.shares_memory() || ranks.has_copy_per_host(), bytes,
                         bytes_of(trained));
  auto ring = world;
  if (const auto shares = ranks.num_dividing(parallel.shard); shares != world) {
    ring = world / shares;  // of one rank per host, each with a share of the gradients
    sent = 2 * bytes / static_cast<size_t>(shares);
  }
  return {{"buckets", buckets},
          {"sent_per_rank",
           static_cast<int64_t>(static_cast<double>(ring - 1) / static_cast<double>(ring) *
                                static_cast<double>(sent))}};
}

std::string size_of(const Json& bytes) { return size_text(bytes.get<uint64_t>()); }

std::string counted(const Json& number, const char* what) {
  const auto count = number.get<int64_t>();
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string plan_line(const char* name, const std::string& text) {
  return fmt::format("  {:<12}{}\n", name, text);
}

std::string render_data(const Json& data, const Json& steps) {
  auto samples = fmt::format("{}, {} per rank and epoch", data["samples"].get<int64_t>(),
                             data["samples_per_rank"].get<int64_t>());
  if (data["repeated"] > 0)
    samples += fmt::format("; {} repeated to balance the ranks", data["repeated"].get<int64_t>());
  if (data["left_out"] > 0)
    samples += fmt::format("; {} dropped (drop_last)", data["left_out"].get<int64_t>());
  auto batch = fmt::format("{} samples, {} per rank{}", data["batch_size"].get<int64_t>(),
                           data["batch_size_per_rank"].get<int64_t>(),
                           data["uneven"] ? ", one less on the last ranks" : "");
  if (data["accumulate"] > 1)
    batch += fmt::format(", {} batches and {} samples per step", data["accumulate"].get<int64_t>(),
                         data["samples_per_step"].get<int64_t>());
  auto text = plan_line("samples", samples) + plan_line("batch", batch);
  text +=
      plan_line("steps", fmt::format("{} per epoch, {} in total", steps["per_epoch"].get<int64_t>(),
                                     steps["total"].get<int64_t>()));
  if (!data["evaluation_samples"].is_null())
    text += plan_line("evaluation",
                      fmt::format("{} samples", data["evaluation_samples"].get<int64_t>()));
  return text + plan_line("loading", counted(data["workers_per_rank"], "thread") + " per rank");
}

std::string render_gradients(const Json& gradients) {
  const auto& buckets = gradients["buckets"];
  std::vector<std::string> sizes;
  for (size_t i = 0; i < std::min<size_t>(buckets.size(), 6); ++i)
    sizes.push_back(size_of(buckets[i]));
  if (buckets.size() > sizes.size())
    sizes.push_back(fmt::format("and {} more", buckets.size() - sizes.size()));
  return plan_line("gradients",
                   fmt::format("{} bucket{}: {}", buckets.size(), buckets.size() == 1 ? "" : "s",
                               fmt::join(sizes, ", "))) +
         plan_line("network", size_of(gradients["sent_per_rank"]) +
                                  " sent and received per rank and step (ring)");
}

std::string render_memory(const Json& memory) {
  auto parts = fmt::format("{} weights, {} gradients, {} optimizer", size_of(memory["weights"]),
                           size_of(memory["gradients"]), size_of(memory["optimizer"]));
  for (const auto& [name, text] : {std::pair{"in_flight", "gradients being exchanged"},
                                   {"average", "average"},
                                   {"snapshot", "checkpoint being written"}})
    if (memory[name].get<uint64_t>() > 0)
      parts += fmt::format(", {} {}", size_of(memory[name]), text);
  return plan_line("memory", fmt::format("{} per rank, without activations: {}",
                                         size_text(total_of(memory)), parts)) +
         plan_line("checkpoint", size_of(memory["checkpoint"]));
}

std::string render_sharding(const Json& sharding) {
  std::vector<std::string> needs;
  for (const auto& strategy : sharding["strategies"])
    if (strategy["refused"].is_null())
      needs.push_back(
          fmt::format("{} {}", strategy["name"].get<std::string>(), size_of(strategy["bytes"])));
  const auto& fits = sharding["fits"];
  return plan_line("sharding",
                   fmt::format("{} per rank; {} free here: {}", fmt::join(needs, ", "),
                               size_of(sharding["free"]),
                               fits.is_null() ? "no strategy fits, use more ranks or hosts"
                                              : "distributed.shard: " + fits.get<std::string>() +
                                                    " is the first that fits"));
}

}  // namespace

Json plan_run(const PreparedRun& run) {
  const auto& config = run.config;
  const int64_t world = run.ranks.world_size;
  const auto length = length_of_run(config.train, run.plan);
  const auto trained = trainable_parameters(*run.model);
  const auto optimizer = config.optimizer.build(trained);
  Json result = {{"ranks", {{"world", world}, {"per_node", run.ranks.local_world_size}}}};
  result["data"] = plan_data(run);
  result["steps"] = {{"per_epoch", length.steps_per_epoch}, {"total", length.total_steps}};
  result["learning_rate"] = plan_learning_rate(config, *optimizer, length);
  result["model"] = {{"name", config.model.name()},
                     {"parameters", num_parameters(*run.model)},
                     {"trained", count_numbers(trained)}};
  const auto sizes = sizes_of(run, trained, *optimizer);
  result["memory"] = plan_memory(sizes, config.distributed.data_parallel.shard);
  if (world > 1) {
    result["sharding"] = plan_strategies(run, sizes, *optimizer);
    result["gradients"] = plan_gradients(run, trained);
  }
  return result;
}

std::string dry_run(const PreparedRun& run) {
  const auto& config = run.config;
  const auto alone =
      World::connect({.device = config.distributed.device, .backend = config.distributed.backend});
  load_initial_weights(*alone, run);
  run.model->to(alone->device());
  run.model->train();
  try_model(run, alone->device());
  try_step(run, alone->device());
  run.model->to(at::kCPU);
  return render_plan(plan_run(run)) +
         "dry run: run file, data and model are valid, and one batch passed\n";
}

std::string render_plan(const Json& plan) {
  const auto world = plan["ranks"]["world"].get<int64_t>();
  const auto per_node = plan["ranks"]["per_node"].get<int64_t>();
  auto text = fmt::format("{} rank{}, {} per node, {} node{}\n", world, world == 1 ? "" : "s",
                          per_node, world / per_node, world == per_node ? "" : "s");
  text += render_data(plan["data"], plan["steps"]);
  std::vector<std::string> rates;
  for (const auto& rate : plan["learning_rate"])
    rates.push_back(
        fmt::format("{:.4g} (step {})", rate["lr"].get<double>(), rate["step"].get<int64_t>()));
  text += plan_line("lr", fmt::format("{}", fmt::join(rates, ", ")));
  const auto& model = plan["model"];
  text += plan_line("model", fmt::format("{}, {} parameters{}", model["name"].get<std::string>(),
                                         model["parameters"].get<int64_t>(),
                                         model["trained"] == model["parameters"]
                                             ? ""
                                             : fmt::format(", {} of them trained",
                                                           model["trained"].get<int64_t>())));
  text += render_memory(plan["memory"]);
  if (plan.contains("sharding")) text += render_sharding(plan["sharding"]);
  return plan.contains("gradients") ? text + render_gradients(plan["gradients"]) : text;
}

}  // namespace lockstep::trainer
