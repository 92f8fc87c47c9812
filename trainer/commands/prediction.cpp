#include "trainer/commands/prediction.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/loader/loader.h"
#include "data/sampling/sampling.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/commands/rows_file.h"
#include "trainer/commands/trained_weights.h"
#include "trainer/config/precision.h"
#include "trainer/loop/round_robin_shard.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

constexpr WeightUse kPredictionUse{.option = "--predict", .purpose = "predict with"};

// Shape and type of a row of the file, the same for every sample.
struct RowLayout {
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
};

std::string text_of(const RowLayout& row) {
  return fmt::format("{} [{}]", c10::toString(row.type), fmt::join(row.shape, ", "));
}

// Returns a row for each sample of `batch`, on the CPU.
at::Tensor predictions_of(const PreparedRun& run, const Batch& batch) {
  const auto precision = run.config.train.precision;
  auto predictions = in_model(run.model_title(), &batch,
                              [&] { return forward_in(precision, *run.model, batch).predictions; });
  if (!predictions.defined())
    throw config_error(
        "the model returns no predictions; a compiled model does if its loss function returns "
        "'predictions'");
  if (predictions.dim() == 0 || predictions.size(0) != batch.size())
    throw config_error(
        fmt::format("the model does not return one prediction per sample: [{}] for {} samples",
                    fmt::join(predictions.sizes(), ", "), batch.size()));
  if (precision != Precision::Float32)
    predictions = predictions.to(at::kFloat);  // what numpy can read
  return predictions.to(at::kCPU);
}

RowLayout layout_of(const at::Tensor& predictions) {
  return {predictions.sizes().slice(1).vec(), predictions.scalar_type()};
}

// Broadcasts the layout of rank 0's first batch; rank 0 always has one.
RowLayout agree_on_layout(World& world, const at::Tensor& first) {
  nlohmann::json own;
  if (first.defined()) {
    const auto layout = layout_of(first);
    own = {{"shape", layout.shape}, {"type", static_cast<int>(layout.type)}};
  }
  const auto all = distributed::broadcast_object(world, own, 0, "shape of the predictions");
  return {all["shape"].get<std::vector<int64_t>>(),
          static_cast<at::ScalarType>(all["type"].get<int>())};
}

void verify_layout(const RowLayout& row, const at::Tensor& predictions, int64_t batch) {
  if (const auto own = layout_of(predictions); own.shape != row.shape || own.type != row.type)
    throw config_error(
        fmt::format("the predictions of batch {} are {} per sample, those of the first batch {}: "
                    "all samples must have the same shape",
                    batch, text_of(own), text_of(row)));
}

std::vector<int64_t> with_rows(int64_t rows, const RowLayout& row) {
  auto shape = row.shape;
  shape.insert(shape.begin(), rows);
  return shape;
}

// Each round processes one batch per rank; rank 0 writes them in order.
RowLayout predict_all(World& world, const PreparedRun& run, RowsFile* file) {
  const at::InferenceMode inference;
  const auto num_samples = run.data.eval->size();
  const auto batch_size = std::min(run.config.data.eval_batch_size, num_samples);
  const auto batches = shard_batches(num_samples, batch_size, {world.rank(), world.world_size()});
  const auto local = world.local_world_size();
  data::Loader loader(*run.data.eval, batches.indices,
                      {.batch_size = batch_size,
                       .workers = (run.config.data.loader.workers + local - 1) / local,
                       .device = world.device(),
                       .name = "data.eval"});
  run.model->eval();
  RowLayout row;
  for (int64_t round = 0; round < batches.max_batches; ++round) {
    at::Tensor predictions;
    if (const auto batch = loader.next())
      predictions = predictions_of(run, batch->to(world.device()));
    if (round == 0) {
      row = agree_on_layout(world, predictions);
      distributed::act_on_main(world, "predictions file", [&] {
        file->begin("predictions", row.type, with_rows(num_samples, row));
        return true;
      });
    }
    auto padded = at::zeros(with_rows(batch_size, row), row.type);
    if (predictions.defined()) {
      verify_layout(row, predictions, round * world.world_size() + world.rank());
      padded.narrow(0, 0, predictions.size(0)).copy_(predictions);
    }
    const auto all = distributed::all_gather(world, padded, "predictions").flatten(0, 1);
    const auto done = round * batch_size * world.world_size();
    if (file) file->write(all.narrow(0, 0, std::min(all.size(0), num_samples - done)));
  }
  return row;
}

}  // namespace

std::string write_predictions(const PredictionOptions& options) {
  const auto config = trainer::load_run_config(options.config_path, options.overrides);
  trainer::verify_has_eval_data(kPredictionUse, config);
  const auto run = trainer::prepare_prediction(config, options.ranks, /*may_skip_samples=*/false);
  trainer::verify_has_weights(kPredictionUse, options.run_id, run);
  const auto connected = connect_with_model(run, options.progress);
  auto& world = *connected;
  std::optional<trainer::RowsFile> file;
  distributed::act_on_main(world, "predictions file", [&] {
    file.emplace(options.out);
    return true;
  });
  const auto weights = trainer::load_trained_weights(world, kPredictionUse, options.run_id, run);
  const auto row = trainer::predict_all(world, run, file ? &*file : nullptr);
  distributed::act_on_main(world, "predictions file", [&] {
    file->finish();
    return true;
  });
  world.finish();
  return fmt::format("predictions: {} x {} in {}\n{}", run.data.eval->size(), text_of(row),
                     options.out.string(), weights.text());
}

}  // namespace lockstep::trainer
