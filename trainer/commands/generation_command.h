// `lockstep-trainer --generate`: continues prompts with a trained language model.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/progress_page.h"
#include "lockstep/rank_env.h"
#include "trainer/commands/generation_options.h"

namespace lockstep::trainer {

struct GenerationRequest {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;  // "a.b=value"
  std::optional<std::string> run_id;   // as for predictions
  GenerationArguments arguments;
  RankEnv ranks;
  ProgressPage* progress = nullptr;  // where this rank publishes its progress; outlives the call
  // Prints text on rank 0; `streams`: the only text of a single prompt piece by piece, as it is
  // generated.
  std::function<void(std::string_view)> print;
  bool streams = false;
};

// Collective over all processes of the job: each rank generates the texts of some of the prompts.
// Prints them on rank 0, or writes them as JSON Lines to --out, which is replaced once all are
// complete, and prints a summary. Each text is the same for any number of ranks, up to differences
// in the last bits of logits that batches of other sizes have. Throws Config, Environment,
// PeerError.
void generate_texts(const GenerationRequest& request);

}  // namespace lockstep::trainer
