#include "trainer/commands/evaluation_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/system/durable_file.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "lockstep/record.h"
#include "models/preference.h"
#include "trainer/commands/generation_options.h"
#include "trainer/commands/trained_weights.h"
#include "trainer/loop/evaluation.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

constexpr WeightUse kEvaluationUse{.option = "--evaluate", .purpose = "evaluate"};

// The loss of other models is that of training.
void verify_has_own_loss(const PreparedRun& run) {
  const auto* const model = dynamic_cast<const models::ReferencedModel*>(run.model.get());
  if (model && model->needs_reference())
    throw config_error(
        "--evaluate: the loss of model.dpo compares with the weights before training, which only a "
        "training has; its evaluations are in `lockstep runs show`");
}

std::map<std::string, double> metrics_of(World& world, const PreparedRun& run) {
  const auto& config = run.config;
  const auto local = world.local_world_size();
  EvaluationMetrics metrics(config.train.eval_metrics, *run.data.eval);
  return in_model(run.model_title(), nullptr, [&] {
    return evaluate(world, *run.model, *run.data.eval,
                    {.batch_size = config.data.eval_batch_size,
                     .workers = (config.data.loader.workers + local - 1) / local,
                     .precision = config.train.precision,
                     .metrics = &metrics});
  });
}

std::string table_of(const std::map<std::string, double>& metrics) {
  size_t width = 0;
  for (const auto& [name, value] : metrics) width = std::max(width, name.size());
  std::string table;
  for (const auto& [name, value] : metrics)
    table += fmt::format("{:<{}}  {:.6g}\n", name, width, without_nan_sign(value));
  return table;
}

// Values that are not finite are null.
std::string json_of(const std::map<std::string, double>& metrics, int64_t samples,
                    const std::string& weights) {
  const nlohmann::ordered_json json = {
      {"metrics", metrics}, {"samples", samples}, {"weights", weights}};
  return json.dump() + "\n";
}

}  // namespace

std::string evaluate_weights(const EvaluationRequest& request) {
  const auto config = load_run_config(request.config_path, request.overrides);
  verify_out(request.out);
  verify_has_eval_data(kEvaluationUse, config);
  const auto run = prepare_prediction(config, request.ranks);
  verify_has_weights(kEvaluationUse, request.run_id, run);
  verify_has_own_loss(run);
  const auto connected = connect_with_model(run, request.progress);
  auto& world = *connected;
  const auto weights = load_trained_weights(world, kEvaluationUse, request.run_id, run);
  const auto metrics = metrics_of(world, run);
  const auto samples = run.data.eval->size();
  distributed::act_on_main(world, "file of --out", [&] {
    if (request.out) write_file_durably(*request.out, json_of(metrics, samples, weights));
    return true;
  });
  world.finish();
  return fmt::format("{}samples: {}\nweights: {}\n", table_of(metrics), samples, weights);
}

}  // namespace lockstep::trainer
