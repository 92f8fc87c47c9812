// Evaluation over all ranks: each sample exactly once, and the same result to the last bit for any
// number of ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "data/loader/bad_samples.h"
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/world.h"
#include "trainer/config/precision.h"
#include "trainer/metrics/evaluation_metrics.h"

namespace lockstep::trainer {

struct EvaluationOptions {
  std::string model;  // its title, for messages
  int64_t batch_size = 500;
  int64_t workers = 0;  // loader threads of this rank
  Precision precision = Precision::Float32;
  std::shared_ptr<data::BadSamples> bad_samples = nullptr;  // as of a Loader
  // Called with each batch of this rank; may be empty.
  std::function<void(const Batch&, const Outputs&)> on_batch = {};
  EvaluationMetrics* metrics = nullptr;  // computes more metrics; null: none
  // Whether forward passes are collective. Each rank then runs as many as the others, repeating its
  // last batch if necessary.
  bool is_collective = false;
  // Collective: called by all ranks every few batches; true cancels the evaluation. May be empty.
  std::function<bool()> should_stop;
};

// Collective. Returns means over the dataset's samples (or targets, where the model counts those),
// e.g. {"loss": 0.05, "accuracy": 0.99}; empty if canceled. A metric that some batches lack counts as 0
// there. Leaves the model in training mode. Throws Config when the dataset has no valid target, and for
// faults of the model.
//
// Note [Evaluation]: batches are cut independently of the ranks (trainer/loop/round_robin_shard.h).
// Each batch has its own slot for its sums, and they are added in the order of the batches, so the
// order of addition does not depend on the world size W.
std::map<std::string, double> evaluate(World& world, Model& model, const Dataset& dataset,
                                       const EvaluationOptions& options);

}  // namespace lockstep::trainer
