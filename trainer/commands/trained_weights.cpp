#include "trainer/commands/trained_weights.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/run_id.h"
#include "core/system/progress_page.h"
#include "distributed/objects.h"
#include "formats/store/store_path.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_mirror.h"
#include "trainer/checkpoint/initial_weights.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/handshake.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

void verify_run(const fs::path& run_dir, const std::string& id, const WeightUse& use) {
  if (formats::has_scheme(id)) throw in_bucket("--resume", id);
  if (!is_run_id(id))
    throw config_error(fmt::format("'{}' is not a run id: {}", id, expected_run_id(id)));
  std::error_code ignored;
  if (!fs::exists(run_dir, ignored))
    throw config_error(
        fmt::format("--resume {}: there is no such run in {}; `lockstep runs list` "
                    "lists the runs",
                    id, run_dir.parent_path().string()));
  if (list_checkpoints(tracking::checkpoints_path(run_dir)).empty())
    throw config_error(
        fmt::format("--resume {}: {} has no checkpoint to {}", id, run_dir.string(), use.purpose));
}

}  // namespace

std::string TrainedWeights::text() const {
  auto text = fmt::format("weights: {}\n", source);
  for (const auto& line : warnings) text += fmt::format("         {}\n", line);
  return text;
}

void verify_has_weights(const WeightUse& use, const std::optional<std::string>& run_id,
                        const PreparedRun& run) {
  if (!run_id && run.weights.file.empty())
    throw config_error(
        fmt::format("{} needs weights: --resume RUN_ID uses the last checkpoint of a run, "
                    "train.init_from a file",
                    use.option));
}

void verify_has_eval_data(const WeightUse& use, const RunConfig& config) {
  if (!config.data.eval.is_set() && !config.data.split.eval)
    throw config_error(fmt::format(
        "{} needs evaluation data: set data.eval or data.split.eval in the run file", use.option));
}

std::unique_ptr<World> connect_with_model(const PreparedRun& run, ProgressPage* progress) {
  auto world = World::connect(world_options(run.ranks, run.config.distributed, progress));
  verify_ranks_agree(*world, run);
  world->progress().enter(Phase::Evaluating);
  world->progress().set_limits(run.config.distributed.hang_warning.value, world->timeout());
  in_gpu_memory(run.model_title(), [&] { run.model->to(world->device()); });
  return world;
}

TrainedWeights load_trained_weights(World& world, const WeightUse& use,
                                    const std::optional<std::string>& run_id,
                                    const PreparedRun& run) {
  const auto& config = run.config;
  if (!run_id) {
    load_initial_weights(world, *run.model, run.weights);
    return {run.weights.file.string(), run.model->warnings()};
  }
  const auto run_dir = fs::path(config.run.dir) / *run_id;
  distributed::act_on_main(world, fmt::format("run to {}", use.purpose), [&] {
    verify_run(run_dir, *run_id, use);
    return true;
  });
  const auto restored = restore_weights(world, *run.model, tracking::checkpoints_path(run_dir),
                                        config.train.ema.decay.has_value(), run.weights.file);
  return {fmt::format("{}{} after step {}", restored.averaged ? "averaged, " : "", run_dir.string(),
                      restored.step),
          restored.rejected};
}

}  // namespace lockstep::trainer
