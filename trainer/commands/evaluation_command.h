// `lockstep-trainer --evaluate`: loss and metrics of trained weights, without training.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system/progress_page.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {

struct EvaluationRequest {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;  // "a.b=value"
  std::optional<std::string> run_id;   // as for predictions
  std::optional<std::string> out;  // a JSON file, on rank 0; replaced once the new one is complete
  RankEnv ranks;
  ProgressPage* progress = nullptr;  // where this rank publishes its progress; outlives the call
};

// Collective over all processes of the job. Computes what evaluations of a training record, the
// model's metrics and those of train.eval_metrics, with the same bits for any number of ranks.
// Creates no run. Returns a table of the metrics. Throws Config, Environment, PeerError.
std::string evaluate_weights(const EvaluationRequest& request);

}  // namespace lockstep::trainer
