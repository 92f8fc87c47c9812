// What commands have in common that use weights of a run or of a file, and do not train.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/world.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// What is done with the weights, for messages.
struct WeightUse {
  const char* option;   // "--predict"
  const char* purpose;  // "predict with"
};

struct TrainedWeights {
  std::string source;                 // where they come from
  std::vector<std::string> warnings;  // one line each

  std::string text() const;  // "weights: SOURCE\n", and the warnings
};

// Throws Config if neither `run_id` nor train.init_from is set.
void verify_has_weights(const WeightUse& use, const std::optional<std::string>& run_id,
                        const PreparedRun& run);

// Throws Config if there are no evaluation data.
void verify_has_eval_data(const WeightUse& use, const RunConfig& config);

// Collective: connects to the other ranks, which must have the same run, and moves the model to the
// device. `progress`: may be null.
std::unique_ptr<World> connect_with_model(const PreparedRun& run, ProgressPage* progress);

// Collective: loads the weights of the last good checkpoint of `run_id` (with train.ema: the
// averaged ones), or those of train.init_from. Throws Config, Environment.
TrainedWeights load_trained_weights(World& world, const WeightUse& use,
                                    const std::optional<std::string>& run_id,
                                    const PreparedRun& run);

}  // namespace lockstep::trainer
