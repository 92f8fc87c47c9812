// Prediction: writes the outputs of a trained model for the evaluation data to a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system/progress_page.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {

struct PredictionOptions {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;  // "a.b=value"
  // The run whose last good checkpoint has the weights (the averaged ones with train.ema). None:
  // the weights of train.init_from.
  std::optional<std::string> run_id;
  std::filesystem::path out;  // on rank 0; replaced once the new file is complete
  RankEnv ranks;
  ProgressPage* progress = nullptr;  // where this rank publishes its progress; outlives the call
};

// Collective over all processes of the job. Writes a safetensors file with the tensor
// "predictions": a row per sample in the order of the dataset, each sample once, the same bytes for
// any number of ranks. Holds at most one batch of data.eval_batch_size per rank in memory. Returns
// a human-readable summary of what was written with which weights. Throws Config, Environment,
// PeerError.
std::string write_predictions(const PredictionOptions& options);

}  // namespace lockstep::trainer
