#include "trainer/prepared/prepared_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "core/config/run_file.h"
#include "core/system/malloc_tuning.h"
#include "data/sampling/sampling.h"
#include "distributed/cuda/cuda.h"
#include "distributed/objects.h"
#include "formats/store/store_path.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/checkpoint/checkpoint_mirror.h"
#include "trainer/checkpoint/chosen_weights.h"
#include "trainer/checkpoint/initial_weights.h"
#include "trainer/config/precision.h"
#include "trainer/config/run_length.h"
#include "trainer/metrics/dataset_metadata.h"
#include "trainer/prepared/example_data.h"
#include "trainer/prepared/first_samples.h"
#include "trainer/prepared/frozen_parameters.h"
#include "trainer/prepared/matmul_choice.h"
#include "trainer/prepared/model_faults.h"
#include "trainer/prepared/object_stores.h"
#include "trainer/prepared/openmp_threads.h"
#include "trainer/prepared/run_hooks.h"
#include "trainer/prepared/shard_choice.h"
#include "trainer/prepared/virtual_shards.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

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

std::shared_ptr<Model> make_model(const PreparedRun& run) {
  const auto title = run.model_title();
  auto model = in_model(title, nullptr, [&] { return run.config.model.build(); });
  verify_has_values(title, *model);
  verify_precision(*model, run.config.train.precision);
  if (run.config.data.mix.is_on() && model->has_backward())
    throw config_error("data.mix has no effect on a compiled model: remove it");
  return model;
}

// A model that names a file with its weights is loaded as with train.init_from.
void find_initial_weights(PreparedRun& run) {
  auto& train = run.config.train;
  run.weights = run.model->initial_weights();
  if (!train.init_from) {
    if (!run.weights.file.empty()) train.init_from = run.weights.file.string();
    return;
  }
  if (!run.weights.adapter.empty())
    throw config_error(
        "train.init_from replaces all weights, but the model continues an adapter: remove "
        "train.init_from, or lora.path of the model");
  if (formats::has_scheme(*train.init_from)) throw in_bucket("train.init_from", *train.init_from);
  if (run.weights.file != *train.init_from) run.weights.names.clear();  // those of the model's file
  run.weights.file = *train.init_from;
  run.weights.except = train.init_except;
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

// Before the ranks connect: throws what the optimizer's constructor throws.
void verify_optimizer(const RunConfig& config) {
  if (config.optimizer.build({})->has_evaluation_weights() && config.train.ema.decay)
    throw config_error(
        fmt::format("train.ema cannot be combined with optimizer '{}', which averages the weights "
                    "itself; remove one",
                    config.optimizer.name()));
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

// Units of weights and gradients that a network gathers and exchanges between activations leave gaps
// in the heap, a quarter of it.
bool exchanges_units(const PreparedRun& run) {
  return run.ranks.world_size > 1 && !layout_of(run).shares_memory() &&
         distributed::shards_gradients(run.config.distributed.data_parallel.shard);
}

// While a run trains, allocations of this size and above return their memory.
size_t returned_bytes(const PreparedRun& run) {
  return size_t{exchanges_units(run) ? 4u : 32u} << 20;
}

void make_model_to_train(PreparedRun& run) {
  const auto seed = static_cast<uint64_t>(run.config.run.seed);
  if (!may_shard_weights(run)) {
    if (exchanges_units(run)) return_allocations_from(returned_bytes(run));
    at::manual_seed(seed);
    run.model = make_model(run);
    return;
  }
  return_allocations_from(size_t{1} << 20);
  run.returns_allocations = true;
  auto [model, deferred] = DeferredInit::build(seed, [&] { return make_model(run); });
  run.model = std::move(model);
  run.deferred = std::move(deferred);
}

// Without initial values, so that the weights need no memory.
void make_model_to_plan(PreparedRun& run) {
  return_allocations_from(returned_bytes(run));
  auto [model, deferred] = DeferredInit::build(static_cast<uint64_t>(run.config.run.seed),
                                               [&] { return make_model(run); });
  run.model = std::move(model);
  if (deferred) deferred->discard();
}

void configure_model(PreparedRun& run) {
  const auto& config = run.config;
  freeze_parameters(*run.model, config);
  verify_optimizer(config);
  set_recompute(*run.model, config.train.recompute);
  run.dropout = DropoutSchedule::create(config.train.dropout, *run.model, run.model_title(),
                                        config.train.cuda_graph);
  verify_graph(config.train.cuda_graph, use_of_model(run).device);
  verify_recompute(config.train);
}

void verify_use_of_model(const PreparedRun& run) {
  auto use = use_of_model(run);
  describe_batches(use, run);
  use.vocabulary = vocabulary_of(run.data);
  use.may_skip_samples = run.config.data.loader.max_bad_samples > 0;
  use.first_samples =
      first_samples_of({run.data.train.get(), run.data.eval.get()}, use.may_skip_samples);
  if (run.missing && run.missing->has_unknown_samples())
    use.first_samples = [] { return std::vector<Batch>(); };
  run.model->verify(use);
}

// The files of a dataset, if they are not there. Empty: the files are there, or the dataset has none.
std::string missing_path(const Part<Dataset>& part) {
  const auto settings = part.dump();
  if (!settings.is_object() || !settings.contains("path") || !settings["path"].is_string())
    return "";
  const auto path = settings["path"].get<std::string>();
  if (formats::has_scheme(path)) return "";
  std::error_code error;
  const bool is_empty = fs::is_directory(path, error) && fs::is_empty(path, error);
  return fs::exists(path, error) && !is_empty ? "" : path;
}

std::optional<MissingData> find_missing(const DataSection& data) {
  if (const auto path = missing_path(data.train); !path.empty()) return MissingData{.path = path};
  if (const auto path = missing_path(data.eval); !path.empty())
    return MissingData{.path = path, .assumed = {}, .has_train = true};
  return std::nullopt;
}

// One step of samples that the model could read, in place of those that are not there.
void assume_data(PreparedRun& run) {
  const auto& loader = run.config.data.loader;
  const int64_t world = run.ranks.world_size;
  const auto size = loader.per_rank_batch_size ? *loader.per_rank_batch_size * world
                                               : loader.batch_size.value_or(kDefaultBatchSize);
  const auto data = std::make_shared<ExampleData>(run.model->example_sample(),
                                                  size * run.config.train.accumulate);
  run.missing->assumed = data->description();
  run.data = {data, nullptr};
}

// Of a run with data, a model, and a plan.
void choose_strategy(PreparedRun& run) {
  auto& shard = run.config.distributed.data_parallel.shard;
  shard = choose_shards(run);
  auto& writers = run.config.checkpoint.writers;
  if (writers == WritingRanks::Auto)
    writers = shard == ShardStrategy::Full ? WritingRanks::All : WritingRanks::Main;
  verify_virtual_shards(run);
  verify_recomputation(run.config);
}

// Computes what is deferred, unless the parameters will be sharded first. The values of other ranks
// than the main rank are replaced before they are used.
void compute_unless_sharded(PreparedRun& run) {
  const auto& config = run.config.distributed;
  const bool is_sharded =
      config.data_parallel.shard == ShardStrategy::Full && !selects_gpu(config.device);
  if (!run.deferred || is_sharded) return;
  if (tracking::is_main(run.ranks.rank))
    run.deferred->compute([](const auto&) { return true; }, [](const auto&, const auto&) {});
  run.deferred.reset();
}

PreparedRun prepare_without_data(const RunConfig& config, const RankEnv& ranks) {
  if (selects_gpu(config.distributed.device)) {
    distributed::load_gpu_support();
    if (config.train.deterministic) distributed::use_deterministic_operators();
  }
  // The order of sums within an operator depends on the number of threads.
  if (config.distributed.data_parallel.virtual_shards) at::set_num_threads(1);
  choose_matmul(config);
  start_openmp_threads();
  use_object_stores(config.data.object_cache, ranks.local_world_size);
  return {.config = config,
          .ranks = ranks,
          .resolved = with_escaped_variables(ConfigDumper::dump(config))};
}

void share_data(PreparedRun& run) {
  const auto& config = run.config;
  run.plan = plan_batches(config.data.loader, run.data.train->size(),
                          {run.ranks.world_size, run.ranks.local_world_size},
                          config.distributed.data_parallel.virtual_shards.value_or(0));
  if (run.missing) return;
  run.order = sampler_options(config.data.loader, *run.data.train,
                              static_cast<uint64_t>(config.run.seed), run.plan.rule);
}

bool logs_in(const RunConfig& config, const RankEnv& ranks) {
  return is_logging(
      config.tracking.ranks,
      {.rank = ranks.rank, .world_size = ranks.world_size, .local_rank = ranks.local_rank});
}

// Collective: computes the needed parameters on rank 0, one at a time, and divides them between the
// ranks. `deferred`: null: they have their values.
void compute_sharded(World& world, DeferredInit* deferred, const DeferredInit::IsWanted& is_needed,
                     const distributed::Sharding& sharding) {
  const bool is_main = tracking::is_main(world.rank());
  if (deferred && !is_main) deferred->discard();
  const auto names = distributed::broadcast_object(
      world, deferred ? deferred->names(is_needed) : DeferredInit::Names(), 0, "initial weights");
  if (deferred && is_main)
    deferred->compute(is_needed, [&](const auto& name, const auto& values) {
      sharding.set_weight(name, values);
    });
  else
    for (const auto& name : names) sharding.set_weight(name.get<std::string>(), {});
  sharding.publish_weights(world);
}

void verify_program(const DataSection& data) {
  if (data.eval.name() == "program" || (data.split.eval && data.train.name() == "program"))
    throw config_error(
        "data: the dataset 'program' is for data.train only, without data.split: set data.eval to "
        "another dataset");
}

}  // namespace

PreparedRun prepare_data(const RunConfig& config, const RankEnv& ranks) {
  verify_program(config.data);
  auto run = prepare_without_data(config, ranks);
  run.data = build_datasets(config.data.train, config.data.eval, config.data.split);
  if (config.data.mix.is_on())
    run.data.train = std::make_shared<data::MixedImages>(run.data.train, config.data.mix);
  share_data(run);
  return run;
}

void change_ranks(PreparedRun& run, const RankEnv& ranks) {
  run.ranks = ranks;
  share_data(run);
  run.is_logging = logs_in(run.config, ranks);
  run.hooks = build_hooks(run);
}

PreparedRun prepare_training(const RunConfig& config, const RankEnv& ranks,
                             const std::vector<std::shared_ptr<Hook>>& program_hooks) {
  const bool logs = logs_in(config, ranks);
  tracking::verify_run_name(config.tracking.run_name);
  auto run = prepare_data(config, ranks);
  run.is_logging = logs;
  make_model_to_train(run);
  configure_model(run);
  find_initial_weights(run);
  verify_use_of_model(run);
  add_references(run);
  choose_strategy(run);
  compute_unless_sharded(run);
  verify_hooks(run);
  run.program_hooks = program_hooks;
  run.hooks = build_hooks(run);
  if (!config.train.samples.prompts.empty())
    run.samples = std::make_shared<TextSamples>(config, *run.model, run.model_title());
  return run;
}

PreparedRun prepare_plan(const RunConfig& config, const RankEnv& ranks) {
  tracking::verify_run_name(config.tracking.run_name);
  const auto missing = find_missing(config.data);
  const bool has_train = !missing || missing->has_train;
  auto known = config;
  if (missing) known.data.eval = Part<Dataset>(dataset_registry());
  auto run = has_train ? prepare_data(known, ranks) : prepare_without_data(known, ranks);
  run.missing = missing;
  make_model_to_plan(run);
  configure_model(run);
  if (!has_train) {
    assume_data(run);
    share_data(run);
  }
  verify_use_of_model(run);
  choose_strategy(run);
  for (const auto& hook : config.train.hooks.parts()) hook.build();
  return run;
}

PreparedRun prepare_prediction(const RunConfig& config, const RankEnv& ranks,
                               bool may_skip_samples) {
  auto run = prepare_without_data(config, ranks);
  run.data = build_datasets_to_predict(config.data.train, config.data.eval, config.data.split);
  if (run.data.eval->size() == 0) throw config_error("data.eval: the dataset is empty");
  run.model = make_model(run);
  if (config.train.init_from) run.config.train.init_except.clear();  // all are needed
  find_initial_weights(run);
  auto use = use_of_model(run);
  use.vocabulary = vocabulary_of(run.data);
  use.may_skip_samples = may_skip_samples;
  use.first_samples = first_samples_of({run.data.eval.get()}, may_skip_samples);
  run.model->verify(use);
  return run;
}

PreparedRun prepare_generation(const RunConfig& config, const RankEnv& ranks) {
  auto run = prepare_without_data(config, ranks);
  run.model = make_model(run);
  find_initial_weights(run);
  return run;
}

BaseWeights load_initial_weights(World& world, const PreparedRun& run,
                                 const distributed::Sharding* sharding) {
  const auto& weights = run.weights;
  const auto is_needed = [&](const std::string& name) {
    return weights.file.empty() || !is_loaded(name, weights);
  };
  if (sharding && sharding->is_full())
    compute_sharded(world, run.deferred.get(), is_needed, *sharding);
  else if (run.deferred)
    run.deferred->compute(is_needed, [](const auto&, const auto&) {});
  if (weights.file.empty()) return {};
  return load_initial_weights(world, *run.model, weights, sharding);
}

void end_start(PreparedRun& run) {
  if (run.returns_allocations) return_allocations_from(returned_bytes(run));
  run.returns_allocations = false;
}

}  // namespace lockstep::trainer
