#include "trainer/loop/evaluation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "data/loader/loader.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "trainer/loop/round_robin_shard.h"
#include "trainer/prepared/model_faults.h"
#include "trainer/state/meter.h"

namespace lockstep::trainer {
namespace {

constexpr int64_t kBatchesPerStopCheck = 50;

// Returns nullopt if canceled. All ranks check for a stop equally often. `spare`: for a rank without a batch.
std::optional<std::vector<Measured>> run_batches(World& world, Model& model, data::Loader& loader,
                                                 const RoundRobinShard& shard,
                                                 const EvaluationOptions& options,
                                                 const std::function<Batch()>& spare) {
  const auto& should_stop = options.should_stop;
  const bool has_targets = !model.target_name().empty();
  std::vector<Measured> results;
  Meter meter;
  Batch last;
  for (int64_t i = 0; i < shard.max_batches; ++i) {
    if (should_stop && i % kBatchesPerStopCheck == kBatchesPerStopCheck - 1 && should_stop())
      return std::nullopt;
    const auto batch = loader.next();
    if (!batch && !options.is_collective) continue;
    if (!batch && i == 0) last = spare().to(world.device());
    const auto here = batch ? batch->to(world.device()) : last;
    const auto outputs =
        in_model(options.model, &here, [&] { return forward_in(options.precision, model, here); });
    verify_outputs(options.model, here, outputs,
                   {.has_targets = has_targets, .device = world.device()});
    if (!batch) continue;
    if (options.is_collective) last = here;
    if (options.metrics)
      options.metrics->add_batch(shard.local_batches[results.size()], here, outputs);
    if (options.on_batch) options.on_batch(here, outputs);
    meter.add(outputs);
    results.push_back(meter.take());
  }
  return results;
}

// Collective. The names of the metrics of all batches, sorted.
std::vector<std::string> names_of_metrics(World& world, const std::vector<Measured>& results) {
  std::vector<std::string> own;
  if (!results.empty())  // the last one has the names of those before it
    for (const auto& [name, counter] : results.back().counters) own.push_back(name);
  std::set<std::string> all;
  for (const auto& names : distributed::all_gather_object(world, own, "evaluation metrics"))
    for (const auto& name : names) all.insert(name.get<std::string>());
  return {all.begin(), all.end()};
}

}  // namespace

std::map<std::string, double> evaluate(World& world, Model& model, const Dataset& dataset,
                                       const EvaluationOptions& options) {
  const at::InferenceMode inference;
  const auto shard =
      shard_batches(dataset.size(), options.batch_size, {world.rank(), world.world_size()});
  const auto num_batches = shard.num_batches;
  data::Loader loader(dataset, shard.indices,
                      {.batch_size = options.batch_size,
                       .workers = options.workers,
                       .device = world.device(),
                       .name = "data.eval",
                       .bad_samples = options.bad_samples});
  model.eval();
  const auto finished = run_batches(world, model, loader, shard, options, [&] {
    constexpr std::array<int64_t, 1> kFirst = {0};
    return dataset.get_batch(kFirst);
  });
  model.train();
  if (!finished) return {};
  const auto& results = *finished;

  const auto names = names_of_metrics(world, results);
  const auto width = static_cast<int64_t>(names.size());
  auto slots = at::zeros({num_batches, width + 1}, at::kDouble);  // last column: targets
  for (size_t i = 0; i < results.size(); ++i) {
    for (int64_t j = 0; j < width; ++j)
      slots[shard.local_batches[i]][j] = results[i].sum(names[static_cast<size_t>(j)]);
    slots[shard.local_batches[i]][width] = results[i].targets;
  }
  all_reduce(world, slots, distributed::ReduceOp::Sum, "evaluation");

  const auto* values = slots.const_data_ptr<double>();
  const auto total = [&](int64_t column) {
    double sum = 0;
    for (int64_t i = 0; i < num_batches; ++i) sum += values[i * (width + 1) + column];
    return sum;
  };
  const auto targets = total(width);
  if (targets == 0) throw config_error("data.eval: no valid target in the dataset");
  std::map<std::string, double> means;
  for (int64_t j = 0; j < width; ++j) means[names[static_cast<size_t>(j)]] = total(j) / targets;
  if (options.metrics)
    options.metrics->finish(world, num_batches,
                            std::min(shard.max_batches * options.batch_size, dataset.size()),
                            means);
  return means;
}

}  // namespace lockstep::trainer
