#include "trainer/loop/trial.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "data/loader/loader.h"
#include "data/shard_error.h"
#include "lockstep/error.h"
#include "lockstep/named_tensors.h"
#include "trainer/config/precision.h"
#include "trainer/loop/evaluation_media.h"
#include "trainer/metrics/evaluation_metrics.h"
#include "trainer/metrics/live_memory.h"
#include "trainer/prepared/model_faults.h"
#include "trainer/state/meter.h"

namespace lockstep::trainer {
namespace {

// Two: a graph that was compiled for a dynamic batch size may specialize on 1.
constexpr int64_t kTriedSamples = 2;

// Restores the states of the generators, and puts the model into training mode.
class KeptState {
 public:
  KeptState(Model& model, at::Device device) : model_(model) {
    generators_.push_back(at::detail::getDefaultCPUGenerator());
    if (!device.is_cpu()) generators_.push_back(at::globalContext().defaultGenerator(device));
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

bool is_bad_sample(const Dataset& dataset, int64_t index) {
  try {
    dataset.get_batch(std::span(&index, 1));
  } catch (const Error& error) {
    return data::is_of_samples(error);
  } catch (...) {
    // The loader reports it.
  }
  return false;
}

// Returns nullopt if none of them can be loaded and that is permitted.
std::optional<Batch> first_batch_of(const PreparedRun& run, at::Device device,
                                    const Dataset& dataset, const char* name, int64_t num_samples) {
  const auto max_bad_samples = run.config.data.loader.max_bad_samples;
  std::vector<int64_t> indices(static_cast<size_t>(std::min(num_samples, dataset.size())));
  std::iota(indices.begin(), indices.end(), 0);
  // A loader refuses a batch without a good sample.
  if (max_bad_samples > 0)
    std::erase_if(indices, [&](int64_t index) { return is_bad_sample(dataset, index); });
  if (indices.empty()) return std::nullopt;
  data::Loader loader(dataset, indices,
                      {.batch_size = num_samples,
                       .seed = static_cast<uint64_t>(run.config.run.seed),
                       .device = device,
                       .name = name,
                       .bad_samples = data::tolerated(max_bad_samples)});
  return loader.next();
}

Outputs try_batch(const PreparedRun& run, at::Device device, const Batch& batch,
                  bool has_gradient) {
  const auto title = run.model_title();
  const auto outputs = in_model(
      title, &batch, [&] { return forward_in(run.config.train.precision, *run.model, batch); });
  verify_outputs(title, batch, outputs,
                 {.has_targets = !run.model->target_name().empty(),
                  .has_gradient = has_gradient,
                  .device = device});
  return outputs;
}

// Also compares the two numbers of targets. A compiled model counts those of a training batch only.
Outputs try_evaluation(const PreparedRun& run, at::Device device, const Batch& batch) {
  auto outputs = try_batch(run, device, batch, /*has_gradient=*/false);
  if (run.model->target_name().empty() || run.model->has_backward()) return outputs;
  const auto title = run.model_title();
  const auto counted = count_targets(title, *run.model, batch).item<int64_t>();
  if (const auto returned = outputs.targets.item<int64_t>(); counted != returned)
    throw config_error(
        fmt::format("{}: count_targets() returned {} for a batch, forward() {} as targets: they "
                    "must be equal",
                    title, counted, returned));
  return outputs;
}

struct FreeGradient final : torch::autograd::PostAccumulateGradHook {
  void operator()(const torch::autograd::Variable& parameter) override {
    parameter.mutable_grad().reset();
  }
};

// During its lifetime, a backward pass frees each gradient of a weight as soon as it is complete.
class FreedGradients {
 public:
  explicit FreedGradients(const Model& model) : parameters_(trainable_parameters(model)) {
    for (const auto& [name, parameter] : parameters_)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<FreeGradient>());
  }
  ~FreedGradients() {
    for (const auto& [name, parameter] : parameters_)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
  FreedGradients(const FreedGradients&) = delete;
  FreedGradients& operator=(const FreedGradients&) = delete;

 private:
  NamedTensors parameters_;
};

// A compiled pass returns all gradients, which are not counted.
size_t compiled_pass(const PreparedRun& run, const Batch& batch, LiveMemory& memory) {
  size_t gradients = 0;
  for (const auto& [name, parameter] : trainable_parameters(*run.model))
    gradients += parameter.nbytes();
  auto step = run.model->forward_backward(batch, at::ones({}, batch.fields[0].second.device()));
  std::vector<std::vector<at::Tensor>> kept;
  for (auto& segment : step.remaining_segments) kept.push_back(segment());
  const auto peak = memory.take_peak();
  return peak - std::min(peak, gradients);
}

}  // namespace

void try_model(const PreparedRun& run, at::Device device) {
  const KeptState kept(*run.model, device);
  const at::NoGradGuard no_grad;  // what a model keeps can be used in training
  run.model->eval();
  if (const auto batch = first_batch_of(run, device, *run.data.train, "data.train", kTriedSamples))
    try_evaluation(run, device, *batch);
  if (!run.data.eval || run.data.eval->size() == 0) return;
  const auto batch = first_batch_of(run, device, *run.data.eval, "data.eval", kTriedSamples);
  if (!batch) return;
  EvaluationResult names = {{"loss", 0}};
  const auto outputs = try_evaluation(run, device, *batch);
  for (const auto& [name, sum] : outputs.sums) names[name] = 0;
  const auto& [train, checkpoint] = std::tie(run.config.train, run.config.checkpoint);
  EvaluationMetrics metrics(train.eval_metrics, *run.data.eval);
  metrics.add_batch(0, *batch, outputs);
  verify_media(run.config.tracking.media, *batch, outputs);
  for (const auto& name : metrics.names()) names[name] = 0;
  if (train.early_stop.patience)
    metric_of(names, train.early_stop.metric, "train.early_stop.metric");
  if (checkpoint.keep_best.count)
    metric_of(names, checkpoint.keep_best.metric, "checkpoint.keep_best.metric");
}

std::optional<PassMemory> try_step(const PreparedRun& run, at::Device device, int64_t num_samples,
                                   size_t limit) {
  const auto batch = first_batch_of(run, device, *run.data.train, "data.train", num_samples);
  if (!batch) return std::nullopt;
  const FreedGradients freed(*run.model);
  LiveMemory memory(device, limit);
  try {
    return in_model(run.model_title(), &*batch, [&]() -> PassMemory {
      if (run.model->has_backward()) {
        const auto whole = compiled_pass(run, *batch, memory);
        return {.forward = whole, .whole = whole};
      }
      const auto outputs = try_batch(run, device, *batch, /*has_gradient=*/true);
      const auto forward = memory.take_peak();
      outputs.loss.backward();
      return {.forward = forward, .whole = std::max(forward, memory.take_peak())};
    });
  } catch (...) {
    if (memory.reached_limit()) throw MemoryLimitReached();
    throw;
  }
}

}  // namespace lockstep::trainer
