// Prediction: the outputs of a trained model for each sample of the evaluation data, in a file.
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
  // The run whose last good checkpoint has the weights, averaged ones with train.ema. None: those
  // of train.init_from.
  std::optional<std::string> run_id;
  std::filesystem::path out;  // on rank 0; replaced when all of it is written
  RankEnv ranks;
  ProgressPage* progress = nullptr;  // where this rank tells what it does; outlives the call
};

// Collective over all processes of the job. Writes a safetensors file with the tensor
// "predictions": a row per sample in the order of the dataset, each sample once, the same bytes for
// any number of ranks. In memory are at most as many batches of data.eval_batch_size as there are
// ranks. Returns, for people, what was written with which weights. Throws Config, Environment,
// PeerError.
std::string write_predictions(const PredictionOptions& options);

}  // namespace lockstep::trainer
