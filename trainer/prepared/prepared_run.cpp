#include "trainer/prepared/prepared_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/config/run_file.h"
#include "core/system/malloc_tuning.h"
#include "data/sampling/sampling.h"
#include "distributed/cuda/cuda.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/checkpoint/chosen_weights.h"
#include "trainer/checkpoint/initial_weights.h"
#include "trainer/config/precision.h"
#include "trainer/prepared/model_faults.h"
#include "trainer/prepared/openmp_threads.h"
#include "trainer/prepared/shard_choice.h"
#include "trainer/prepared/skipped_init.h"

namespace lockstep::trainer {
namespace {

// Returns the first sample of each non-empty dataset. With `may_skip_samples`, skips samples that
// cannot be loaded.
std::function<std::vector<Batch>()> first_samples_of(std::vector<const Dataset*> datasets,
                                                     bool may_skip_samples) {
  return [datasets = std::move(datasets), may_skip_samples] {
    constexpr std::array<int64_t, 1> kFirst = {0};
    std::vector<Batch> samples;
    for (const auto* dataset : datasets) try {
        if (dataset && dataset->size() > 0) samples.push_back(dataset->get_batch(kFirst));
      } catch (const Error&) {
        if (!may_skip_samples) throw;
      }
    return samples;
  };
}

// Sets the batch sizes of the rank with the fewest samples: of full batches and of the last batch
// of an epoch.
void describe_batches(ModelUse& use, const PreparedRun& run) {
  const auto num_samples = run.data.train->size();
  const int64_t world = run.ranks.world_size;
  const data::BatchShares first_rank(num_samples, {0, world}, run.plan.rule);
  const data::BatchShares last_rank(num_samples, {world - 1, world}, run.plan.rule);
  const auto last = run.plan.batches_per_epoch - 1;
  use.batch_size = last_rank.batch_size();
  use.last_batch_size = last_rank.loaded(last);
  use.is_uneven = first_rank.batch_size() != last_rank.batch_size() ||
                  first_rank.loaded(last) != last_rank.loaded(last);
}

void verify_precision(const Model& model, Precision precision) {
  if (precision == Precision::Float32 || !model.has_backward()) return;
  throw config_error(fmt::format(
      "train.precision: {} has no effect on a compiled model: {}remove this", name_of(precision),
      precision == Precision::BFloat16 ? "compile it with --precision bf16, and "
                                       : "lockstep-compile supports fp32 and bf16; "));
}

void make_model(PreparedRun& run) {
  const auto title = run.model_title();
  run.model = in_model(title, nullptr, [&] { return run.config.model.build(); });
  verify_has_values(title, *run.model);
  verify_precision(*run.model, run.config.train.precision);
}

void verify_graph(bool cuda_graph, const std::string& device) {
  if (cuda_graph && device != "cuda")
    throw config_error(fmt::format(
        "train.cuda_graph has no effect on device {}: it needs an NVIDIA GPU; remove this key",
        device));
}

void verify_recompute(const TrainSection& train) {
  if (train.cuda_graph && train.recompute.is_on())
    throw config_error("train.recompute cannot be combined with train.cuda_graph; remove one");
}

void freeze(Model& model, const std::vector<std::string>& names) {
  if (names.empty()) return;
  if (model.has_backward())
    throw config_error(
        "train.freeze has no effect on a compiled model: which weights have gradients is fixed "
        "when it is compiled");
  verify_chosen("train.freeze", names, model.named_parameters().keys());
  for (auto& parameter : model.named_parameters())
    if (is_chosen(parameter.key(), names)) parameter.value().requires_grad_(false);
  const auto parameters = model.parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const at::Tensor& parameter) { return parameter.requires_grad(); }))
    throw config_error("train.freeze: no trainable weights remain");
}

// The settings that training and prediction share.
ModelUse use_of_model(const PreparedRun& run) {
  ModelUse use{.device = selects_gpu(run.config.distributed.device) ? "cuda" : "cpu"};
  use.gpu = distributed::gpu_architecture;
  if (run.data.eval)
    use.eval_batch_size = std::min(run.config.data.eval_batch_size, run.data.eval->size());
  return use;
}

bool may_shard_weights(const PreparedRun& run) {
  const auto shard = run.config.distributed.data_parallel.shard;
  return run.ranks.world_size > 1 && (shard == ShardStrategy::Full || shard == ShardStrategy::Auto);
}

void build_model_to_train(PreparedRun& run) {
  const auto& config = run.config;
  at::manual_seed(static_cast<uint64_t>(config.run.seed));
  if (may_shard_weights(run)) return_large_allocations();
  {
    // The main rank's weights will replace those of the others before they are used.
    std::optional<SkippedInit> without_values;
    if (may_shard_weights(run) && !tracking::is_main(run.ranks.rank)) without_values.emplace();
    make_model(run);
  }
  freeze(*run.model, config.train.freeze);
  set_recompute(*run.model, config.train.recompute);
  auto use = use_of_model(run);
  verify_graph(config.train.cuda_graph, use.device);
  verify_recompute(config.train);
  describe_batches(use, run);
  use.may_skip_samples = config.data.loader.max_bad_samples > 0;
  use.first_samples =
      first_samples_of({run.data.train.get(), run.data.eval.get()}, use.may_skip_samples);
  run.model->verify(use);
}

PreparedRun prepare(const RunConfig& config, const RankEnv& ranks) {
  start_openmp_threads();
  return {.config = config,
          .ranks = ranks,
          .resolved = with_escaped_variables(ConfigDumper::dump(config)),
          .data = build_datasets(config.data.train, config.data.eval, config.data.split)};
}

}  // namespace

PreparedRun prepare_data(const RunConfig& config, const RankEnv& ranks) {
  auto run = prepare(config, ranks);
  const auto& train_set = *run.data.train;
  run.plan = plan_batches(config.data.loader, train_set.size(),
                          {ranks.world_size, ranks.local_world_size});
  run.order = sampler_options(config.data.loader, train_set, static_cast<uint64_t>(config.run.seed),
                              run.plan.rule);
  return run;
}

PreparedRun prepare_training(const RunConfig& config, const RankEnv& ranks) {
  const bool logs = is_logging(
      config.tracking.ranks,
      {.rank = ranks.rank, .world_size = ranks.world_size, .local_rank = ranks.local_rank});
  tracking::verify_run_name(config.tracking.run_name);
  auto run = prepare_data(config, ranks);
  run.is_logging = logs;
  build_model_to_train(run);
  auto& shard = run.config.distributed.data_parallel.shard;
  shard = choose_shards(run);
  auto& writers = run.config.checkpoint.writers;
  if (writers == WritingRanks::Auto)
    writers = shard == ShardStrategy::Full ? WritingRanks::All : WritingRanks::Main;
  for (const auto& hook : config.train.hooks.parts()) run.hooks.push_back(hook.build());
  return run;
}

PreparedRun prepare_prediction(const RunConfig& config, const RankEnv& ranks) {
  auto run = prepare(config, ranks);
  if (run.data.eval->size() == 0)
    throw config_error("data.eval: the dataset is empty: there is nothing to predict");
  make_model(run);
  auto use = use_of_model(run);
  use.first_samples = first_samples_of({run.data.eval.get()}, /*may_skip_samples=*/false);
  run.model->verify(use);
  return run;
}

void load_initial_weights(World& world, const PreparedRun& run,
                          const distributed::Sharding* sharding) {
  const auto& train = run.config.train;
  if (train.init_from)
    load_initial_weights(world, *run.model, *train.init_from, train.init_except, sharding);
}

}  // namespace lockstep::trainer
