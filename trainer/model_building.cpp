#include "trainer/model_building.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/sampling/batch_plan.h"
#include "data/sampling/sampling.h"
#include "distributed/cuda/cuda.h"
#include "trainer/checkpoint/chosen_weights.h"
#include "trainer/config/precision.h"
#include "trainer/loop/model_faults.h"

namespace lockstep {
namespace {

// None where it is one that may be left out.
void add_first_sample(std::vector<Batch>& samples, const Dataset& dataset, bool may_lack_samples) {
  constexpr std::array<int64_t, 1> kFirst = {0};
  try {
    samples.push_back(dataset.get_batch(kFirst));
  } catch (const Error&) {
    if (!may_lack_samples) throw;
  }
}

// The batches of the rank that has the fewest samples: of all batches but a shorter last one, and
// of the last one of an epoch.
void describe_batches(ModelUse& use, const BatchPlan& plan, int64_t num_samples, RankCounts ranks) {
  const BatchShares most(num_samples, {0, ranks.world}, plan.rule);
  const BatchShares fewest(num_samples, {ranks.world - 1, ranks.world}, plan.rule);
  const auto last = plan.batches_per_epoch - 1;
  use.batch_size = fewest.batch_size();
  use.last_batch_size = fewest.loaded(last);
  use.is_uneven =
      most.batch_size() != fewest.batch_size() || most.loaded(last) != fewest.loaded(last);
}

std::shared_ptr<Model> make_model(const RunConfig& config) {
  const auto title = fmt::format("model '{}'", config.model.name());
  auto model = in_model(title, nullptr, [&] { return config.model.build(); });
  verify_has_values(title, *model);
  return model;
}

void verify_precision(const Model& model, Precision precision) {
  if (precision == Precision::Float32 || !model.has_backward()) return;
  throw config_error(fmt::format(
      "train.precision: {} has no effect on a compiled model: {}leave this out", name_of(precision),
      precision == Precision::BFloat16 ? "compile it with --precision bf16, and "
                                       : "lockstep-compile knows fp32 and bf16; "));
}

void verify_graph(bool cuda_graph, const std::string& device) {
  if (cuda_graph && device != "cuda")
    throw config_error(fmt::format(
        "train.cuda_graph has no effect on device {}: it needs an NVIDIA GPU; leave it out",
        device));
}

void freeze(Model& model, const std::vector<std::string>& names) {
  if (names.empty()) return;
  if (model.has_backward())
    throw config_error(
        "train.freeze has no effect on a compiled model: which weights have gradients is compiled "
        "in");
  verify_chosen("train.freeze", names, model.named_parameters().keys());
  for (auto& parameter : model.named_parameters())
    if (is_chosen(parameter.key(), names)) parameter.value().requires_grad_(false);
  const auto parameters = model.parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const at::Tensor& parameter) { return parameter.requires_grad(); }))
    throw config_error("train.freeze leaves nothing to train");
}

}  // namespace

RunParts build_parts(const RunConfig& config, RankCounts ranks) {
  RunParts parts{.data = build_datasets(config.data.train, config.data.eval, config.data.split)};
  const auto& [train_set, eval_set] = parts.data;
  parts.plan = plan_batches(config.data.loader, train_set->size(), ranks);
  sampler_options(config.data.loader, *train_set, 0, parts.plan.rule);  // may throw
  parts.model = build_model(config, *train_set, eval_set.get(), parts.plan, ranks);
  return parts;
}

std::shared_ptr<Model> build_model(const RunConfig& config, const Dataset& train_set,
                                   const Dataset* eval_set, const BatchPlan& plan,
                                   RankCounts ranks) {
  at::manual_seed(static_cast<uint64_t>(config.run.seed));
  auto model = make_model(config);
  verify_precision(*model, config.train.precision);
  freeze(*model, config.train.freeze);
  ModelUse use{.device = wants_gpu(config.distributed.device) ? "cuda" : "cpu"};
  verify_graph(config.train.cuda_graph, use.device);
  use.gpu = gpu_architecture;
  describe_batches(use, plan, train_set.size(), ranks);
  if (eval_set) use.eval_batch_size = std::min(config.data.eval_batch_size, eval_set->size());
  use.may_lack_samples = config.data.loader.max_bad_samples > 0;
  use.first_samples = [&] {
    std::vector<Batch> samples;
    add_first_sample(samples, train_set, use.may_lack_samples);
    if (eval_set && eval_set->size() > 0)
      add_first_sample(samples, *eval_set, use.may_lack_samples);
    return samples;
  };
  model->verify(use);
  return model;
}

std::shared_ptr<Model> build_model_to_predict(const RunConfig& config, const Dataset& eval_set) {
  auto model = make_model(config);
  verify_precision(*model, config.train.precision);
  ModelUse use{.device = wants_gpu(config.distributed.device) ? "cuda" : "cpu"};
  use.gpu = gpu_architecture;
  use.eval_batch_size = std::min(config.data.eval_batch_size, eval_set.size());
  use.first_samples = [&] {
    std::vector<Batch> samples;
    add_first_sample(samples, eval_set, /*may_lack_samples=*/false);
    return samples;
  };
  model->verify(use);
  return model;
}

}  // namespace lockstep
