// The part of a run that a process builds before it connects to other ranks: everything that is
// determined by the run file and this rank's numbers. Used by training, prediction, plan and data
// inspection.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sampling/batch_plan.h"
#include "data/sampling/sampler.h"
#include "data/sampling/split.h"
#include "distributed/sharding/shard_strategy.h"
#include "lockstep/model.h"
#include "lockstep/rank_env.h"
#include "trainer/checkpoint/base_weights.h"
#include "trainer/config/run_config.h"
#include "trainer/generation/text_samples.h"
#include "trainer/prepared/deferred_init.h"
#include "trainer/prepared/reference_data.h"

namespace lockstep::trainer {

// Files of a dataset that are not there.
struct MissingData {
  std::string path;
  std::string assumed;     // the fields of the samples of ExampleData; empty: unknown
  bool has_train = false;  // only those of data.eval are missing

  bool has_unknown_samples() const { return !has_train && assumed.empty(); }
};

struct PreparedRun {
  RunConfig config;  // for training, without distributed.shard: auto and checkpoint.writers: auto
  RankEnv ranks;
  Json resolved;  // `config` with all defaults, as stored with the run
  data::TrainAndEval data;
  data::BatchPlan plan;                      // not for predictions
  data::SamplerOptions order;                // of the training samples; not for predictions
  bool is_logging = false;                   // whether this rank logs; training only
  std::shared_ptr<Model> model;              // on the CPU; null after prepare_data()
  std::shared_ptr<DeferredInit> deferred;    // null: the parameters of `model` have their values
  std::vector<std::shared_ptr<Hook>> hooks;  // see run_hooks.h; training only
  std::vector<std::shared_ptr<Hook>> program_hooks;  // of the embedding program, among `hooks`
  InitialWeights weights;                      // of a new run; no file: the model's own values
  std::shared_ptr<const TextSamples> samples;  // of train.samples; null: none. Training only
  std::shared_ptr<DropoutSchedule> dropout;    // of train.dropout and `model`; null: none
  // Of a model that needs them: data.train and data.eval (null: none), for the trainer to set.
  // Training only.
  std::shared_ptr<ReferenceData> train_references, eval_references;
  // Of a planned run without data: what is not there, and what is assumed instead.
  std::optional<MissingData> missing;
  // Whether malloc returns smaller allocations than it should while training; see end_start().
  bool returns_allocations = false;

  std::string model_title() const { return "model '" + config.model.name() + "'"; }
};

// None of these needs another rank. All throw Config, and what start_openmp_threads() throws.
//
// Models are built on the CPU, seeded with run.seed, so they equal the same Python module after
// manual_seed, and verified against the run file. To train with distributed.shard: full, their
// values are computed by load_initial_weights().
PreparedRun prepare_data(const RunConfig& config, const RankEnv& ranks);
PreparedRun prepare_training(const RunConfig& config, const RankEnv& ranks,
                             const std::vector<std::shared_ptr<Hook>>& program_hooks = {});
// The rank numbers of a run from prepare_training() have changed: divides the data between the new
// ranks, and builds new hooks. Throws Config.
void change_ranks(PreparedRun& run, const RankEnv& ranks);
// As prepare_training(), but the weights have no initial values, and so need no memory. If the files
// of the data are not there (`missing`), data.train is an ExampleData of one step.
PreparedRun prepare_plan(const RunConfig& config, const RankEnv& ranks);
// For the samples of data.eval, with a model that is not trained. `may_skip_samples`: whether those
// that cannot be loaded may be left out.
PreparedRun prepare_prediction(const RunConfig& config, const RankEnv& ranks,
                               bool may_skip_samples);
// Without data, with a model that is not trained.
PreparedRun prepare_generation(const RunConfig& config, const RankEnv& ranks);

// Collective: for a new run, computes the values that are deferred and not in train.init_from, then
// loads the latter, if set. `sharding`: of the model; null: none. Returns what checkpoints refer to.
// Throws Config when they do not fit.
BaseWeights load_initial_weights(World& world, const PreparedRun& run,
                                 const distributed::Sharding* sharding = nullptr);

// Call it before training, when the model has its values. Until then, if weights may be sharded,
// allocations of 1 MiB and more return their memory: the tensors of the whole model are freed one
// by one. Afterwards, those of 32 MiB and more.
void end_start(PreparedRun& run);

}  // namespace lockstep::trainer
