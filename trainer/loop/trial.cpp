#include "trainer/loop/trial.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <set>

#include "core/config/nearest_name.h"
#include "data/loader/loader.h"
#include "trainer/config/precision.h"
#include "trainer/loop/model_faults.h"

namespace lockstep {
namespace {

// Two: a graph that was compiled for batches of any size may take 1 for a constant.
constexpr int64_t kTriedSamples = 2;

// Puts the generators' states back, and the model into training mode.
class KeptState {
 public:
  explicit KeptState(const TrialParts& parts) : model_(parts.model) {
    generators_.push_back(at::detail::getDefaultCPUGenerator());
    if (!parts.device.is_cpu())
      generators_.push_back(at::globalContext().defaultGenerator(parts.device));
    for (const auto& generator : generators_) states_.push_back(generator.get_state());
  }
  ~KeptState() {
    for (size_t i = 0; i < generators_.size(); ++i) generators_[i].set_state(states_[i]);
    model_.train();
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  Model& model_;
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_;
};

// Nothing where none of them can be loaded and that is allowed.
std::optional<Batch> first_batch_of(const TrialParts& parts, const Dataset& dataset,
                                    const char* name, int64_t num_samples) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(num_samples, dataset.size())));
  std::iota(indices.begin(), indices.end(), 0);
  BadSamples bad_samples(parts.config.data.loader.max_bad_samples);
  Loader loader(
      dataset, indices,
      {.batch_size = num_samples,
       .seed = static_cast<uint64_t>(parts.config.run.seed),
       .device = parts.device,
       .name = name,
       .bad_samples = parts.config.data.loader.max_bad_samples > 0 ? &bad_samples : nullptr});
  const auto batch = loader.next();
  return batch && batch->size() > 0 ? batch : std::nullopt;
}

std::string title_of(const TrialParts& parts) {
  return fmt::format("model '{}'", parts.config.model.name());
}

Outputs try_samples(const TrialParts& parts, const Batch& batch) {
  const auto outputs = in_model(title_of(parts), &batch, [&] {
    return forward_in(parts.config.train.precision, parts.model, batch);
  });
  verify_outputs(title_of(parts), batch, outputs,
                 {.has_targets = !parts.model.target_name().empty(), .device = parts.device});
  return outputs;
}

void verify_metric(const std::string& key, const std::string& metric, const Outputs& outputs) {
  std::set<std::string> known = {"loss"};
  for (const auto& [name, sum] : outputs.sums) known.insert(name);
  const std::vector<std::string> names(known.begin(), known.end());
  if (std::find(names.begin(), names.end(), metric) == names.end())
    throw config_error(
        fmt::format("{}: the evaluation has no '{}'{}", key, metric, suggest(metric, names)));
}

}  // namespace

void try_model(const TrialParts& parts) {
  const KeptState kept(parts);
  const at::InferenceMode inference;
  parts.model.eval();
  if (const auto batch = first_batch_of(parts, parts.train_set, "data.train", kTriedSamples))
    try_samples(parts, *batch);
  if (!parts.eval_set || parts.eval_set->size() == 0) return;
  const auto batch = first_batch_of(parts, *parts.eval_set, "data.eval", kTriedSamples);
  if (!batch) return;
  const auto outputs = try_samples(parts, *batch);
  const auto& [train, checkpoint] = std::tie(parts.config.train, parts.config.checkpoint);
  if (train.early_stop.patience)
    verify_metric("train.early_stop.metric", train.early_stop.metric, outputs);
  if (checkpoint.keep_best.count)
    verify_metric("checkpoint.keep_best.metric", checkpoint.keep_best.metric, outputs);
}

void try_step(const TrialParts& parts, const BatchPlan& plan) {
  const auto batch = first_batch_of(parts, parts.train_set, "data.train", plan.per_rank_batch_size);
  if (!batch) return;
  in_model(title_of(parts), &*batch, [&] {
    if (parts.model.has_backward()) {
      parts.model.forward_backward(*batch, at::ones({}, parts.device));
      return;
    }
    const auto outputs = forward_in(parts.config.train.precision, parts.model, *batch);
    verify_outputs(title_of(parts), *batch, outputs,
                   {.has_targets = !parts.model.target_name().empty(),
                    .has_gradient = true,
                    .device = parts.device});
    outputs.loss.backward();
  });
}

}  // namespace lockstep
