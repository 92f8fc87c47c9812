// From the run file's `model:` to a model that this run can train.
#pragma once

#include <memory>

#include "data/sampling/batch_plan.h"
#include "data/sampling/split.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

namespace lockstep {

// What a rank trains with.
struct RunParts {
  TrainAndEval data;
  BatchPlan plan;
  std::shared_ptr<Model> model;
};

// Builds them as the run file says, for a job of so many ranks. Needs no other rank. Throws Config.
RunParts build_parts(const RunConfig& config, RankCounts ranks);

// Builds the model on the CPU, seeded with run.seed, so equal to the same Python module after
// manual_seed, and verifies that it can be used as the run file says. Needs no other rank.
// `eval_set`: may be null. `ranks`: of the job. Throws Config.
std::shared_ptr<Model> build_model(const RunConfig& config, const Dataset& train_set,
                                   const Dataset* eval_set, const BatchPlan& plan,
                                   RankCounts ranks);

// The same for a run that predicts for the samples of `eval_set` and trains nothing.
std::shared_ptr<Model> build_model_to_predict(const RunConfig& config, const Dataset& eval_set);

}  // namespace lockstep
