// `lockstep-trainer --evaluate`: loss and metrics of trained weights, without training.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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
  std::function<void(std::string_view text)> print;  // called on rank 0
};

// Collective over all processes of the job. Computes what evaluations of a training record, the
// model's metrics and those of train.eval_metrics, with the same bits for any number of ranks.
// Leaves out samples that cannot be loaded, at most data.max_bad_samples on each rank. Creates no
// run. Prints a table of the metrics, then writes the file. Throws Config, Environment, PeerError.
void evaluate_weights(const EvaluationRequest& request);

}  // namespace lockstep::trainer
