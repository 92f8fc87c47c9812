#include "trainer/model_building.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/sampler.h"
#include "distributed/cuda.h"
#include "trainer/chosen_weights.h"
#include "trainer/precision.h"

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

// Of a rank, in every epoch.
int64_t last_batch_size(const BatchPlan& plan, const LoaderConfig& config, int64_t num_samples,
                        RankCounts ranks) {
  if (config.drop_last) return plan.per_rank_batch_size;
  const DistributedSampler sampler(num_samples,
                                   {.rank = 0, .world = static_cast<int>(ranks.world)});
  return sampler.num_samples() - (plan.batches_per_epoch - 1) * plan.per_rank_batch_size;
}

void verify_precision(const Model& model, const std::string& precision) {
  if (precision == kFloat32 || !model.has_backward()) return;
  throw config_error(fmt::format(
      "train.precision: {} has no effect on a compiled model: {}leave this out", precision,
      precision == kBFloat16 ? "compile it with --precision bf16, and "
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

std::shared_ptr<Model> build_model(const RunConfig& config, const Dataset& train_set,
                                   const Dataset* eval_set, const BatchPlan& plan,
                                   RankCounts ranks) {
  at::manual_seed(static_cast<uint64_t>(config.run.seed));
  auto model = config.model.build();
  verify_precision(*model, config.train.precision);
  freeze(*model, config.train.freeze);
  ModelUse use{.device = wants_gpu(config.distributed.device) ? "cuda" : "cpu"};
  verify_graph(config.train.cuda_graph, use.device);
  use.gpu = gpu_architecture;
  use.batch_size = plan.per_rank_batch_size;
  use.last_batch_size = last_batch_size(plan, config.data.loader, train_set.size(), ranks);
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
  auto model = config.model.build();
  verify_precision(*model, config.train.precision);
  ModelUse use{.device = wants_gpu(config.distributed.device) ? "cuda" : "cpu"};
  use.gpu = gpu_architecture;
  use.first_samples = [&] {
    std::vector<Batch> samples;
    add_first_sample(samples, eval_set, /*may_lack_samples=*/false);
    return samples;
  };
  model->verify(use);
  return model;
}

}  // namespace lockstep
