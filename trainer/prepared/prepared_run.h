// What a process has of a run before it meets other ranks: all that a run file and the numbers of
// this rank decide, built once, for whoever trains, predicts, plans or looks at data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/sampling/batch_plan.h"
#include "data/sampling/sampler.h"
#include "data/sampling/split.h"
#include "lockstep/model.h"
#include "lockstep/rank_env.h"
#include "trainer/config/run_config.h"

namespace lockstep::trainer {

struct PreparedRun {
  RunConfig config;
  RankEnv ranks;
  Json resolved;  // `config` with all defaults, as the run keeps it
  data::TrainAndEval data;
  data::BatchPlan plan;                      // not for predictions
  data::SamplerOptions order;                // of the training samples; not for predictions
  bool is_logging = false;                   // this rank, in a training
  std::shared_ptr<Model> model;              // not for data alone; on the CPU
  std::vector<std::shared_ptr<Hook>> hooks;  // of train.hooks, in a training

  std::string model_title() const { return "model '" + config.model.name() + "'"; }
};

// Each needs no other rank and throws Config.
//
// Models are built on the CPU, seeded with run.seed, so equal to the same Python module after
// manual_seed, and verified to be usable as the run file says.
PreparedRun prepare_data(const RunConfig& config, const RankEnv& ranks);
PreparedRun prepare_training(const RunConfig& config, const RankEnv& ranks);
// For the samples of data.eval, with a model that is not trained.
PreparedRun prepare_prediction(const RunConfig& config, const RankEnv& ranks);

// Collective: for a new run, loads the weights of train.init_from, if it is given. Throws Config when
// they do not fit.
void load_initial_weights(World& world, const PreparedRun& run);

}  // namespace lockstep::trainer
