#include "trainer/commands/evaluation_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "data/loader/bad_samples.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "lockstep/record.h"
#include "models/preference.h"
#include "trainer/commands/generation_options.h"
#include "trainer/commands/trained_weights.h"
#include "trainer/loop/evaluation.h"

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

// Samples that could not be loaded.
struct LeftOut {
  int64_t count = 0;
  std::vector<std::string> warnings;  // about the first ones of each rank
};

// Collective. On rank 0: those of all ranks. `own`: null if none are tolerated.
LeftOut gather_left_out(World& world, data::BadSamples* own) {
  LeftOut all;
  if (!own) return all;
  const nlohmann::json here = {{"count", own->count()}, {"warnings", own->take_warnings()}};
  for (const auto& rank : distributed::gather_object(world, here, 0, "bad samples")) {
    all.count += rank["count"].get<int64_t>();
    for (const auto& line : rank["warnings"]) all.warnings.push_back(line.get<std::string>());
  }
  return all;
}

std::map<std::string, double> metrics_of(World& world, const PreparedRun& run,
                                         std::shared_ptr<data::BadSamples> bad_samples) {
  const auto& config = run.config;
  const auto local = world.local_world_size();
  EvaluationMetrics metrics(config.train.eval_metrics, *run.data.eval);
  return evaluate(world, *run.model, *run.data.eval,
                  {.model = run.model_title(),
                   .batch_size = config.data.eval_batch_size,
                   .workers = (config.data.loader.workers + local - 1) / local,
                   .precision = config.train.precision,
                   .bad_samples = std::move(bad_samples),
                   .metrics = &metrics});
}

std::string table_of(const std::map<std::string, double>& metrics) {
  size_t width = 0;
  for (const auto& [name, value] : metrics) width = std::max(width, name.size());
  std::string table;
  for (const auto& [name, value] : metrics)
    table += fmt::format("{:<{}}  {:.6g}\n", name, width, without_nan_sign(value));
  return table;
}

struct EvaluationReport {
  std::map<std::string, double> metrics;
  int64_t num_samples = 0;  // evaluated
  LeftOut left_out;
  TrainedWeights weights;
};

std::string report_text(const EvaluationReport& report) {
  auto text = table_of(report.metrics) + fmt::format("samples: {}", report.num_samples);
  if (report.left_out.count > 0)
    text += fmt::format(", without {} that cannot be loaded", report.left_out.count);
  for (const auto& line : report.left_out.warnings)
    text += fmt::format("\n         {}", printable(line, 400));
  return text + "\n" + report.weights.text();
}

// Values that are not finite are null.
std::string json_of(const EvaluationReport& report) {
  const nlohmann::ordered_json json = {{"metrics", report.metrics},
                                       {"samples", report.num_samples},
                                       {"bad_samples", report.left_out.count},
                                       {"weights", report.weights.source},
                                       {"warnings", report.weights.warnings}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void evaluate_weights(const EvaluationRequest& request) {
  const auto config = load_run_config(request.config_path, request.overrides);
  verify_out(request.out, request.ranks);
  verify_has_eval_data(kEvaluationUse, config);
  const auto max_bad_samples = config.data.loader.max_bad_samples;
  const auto run = prepare_prediction(config, request.ranks, max_bad_samples > 0);
  verify_has_weights(kEvaluationUse, request.run_id, run);
  verify_has_own_loss(run);
  const auto connected = connect_with_model(run, request.progress);
  auto& world = *connected;
  EvaluationReport report{.weights =
                              load_trained_weights(world, kEvaluationUse, request.run_id, run)};
  const auto bad_samples = data::tolerated(max_bad_samples);
  report.metrics = metrics_of(world, run, bad_samples);
  report.left_out = gather_left_out(world, bad_samples.get());
  report.num_samples = run.data.eval->size() - report.left_out.count;
  distributed::act_on_main(world, "file of --out", [&] {
    request.print(report_text(report));  // kept if the file cannot be written
    if (request.out) write_output_file(*request.out, json_of(report));
    return true;
  });
  world.finish();
}

}  // namespace lockstep::trainer
