#include "trainer/commands/plan/planned_sizes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "distributed/gradients/gradient_buckets.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/prepared/block_units.h"
#include "trainer/prepared/shard_choice.h"

namespace lockstep::trainer {
namespace {

// Measured in a step with learning rate 0, in which some optimizers allocate state; for one
// parameter after the other, so that the state of the whole model needs no memory.
size_t bytes_of_state(const RunConfig& config, const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  size_t bytes = 0;
  for (const auto& [name, parameter] : parameters) {
    auto copy = at::zeros_like(parameter).requires_grad_(true);
    copy.mutable_grad() = at::zeros_like(parameter);
    const auto optimizer = config.optimizer.build({{name, copy}});
    optimizer->step(0);
    bytes += bytes_of(optimizer->state());
  }
  return bytes;
}

// Gradients that PerHostGradients exchanges together: at least `cap`, from the last parameter on.
size_t largest_bucket(const NamedTensors& trained, size_t cap) {
  size_t largest = 0, bytes = 0;
  for (auto i = trained.size(); i > 0; --i) {
    bytes += trained[i - 1].second.nbytes();
    largest = std::max(largest, bytes);
    if (bytes >= cap) bytes = 0;
  }
  return largest;
}

void add_communication(PlannedSizes& sizes, const PreparedRun& run, const NamedTensors& trained) {
  const auto& parallel = run.config.distributed.data_parallel;
  const auto layout = layout_of(run);
  sizes.exchanged = sizes.trained;
  sizes.is_compressed = parallel.gradient_compression != GradientCompression::None;
  if (sizes.is_compressed) sizes.exchanged /= 2;
  sizes.is_on_cpu = layout.on_cpu;
  sizes.shares_memory = layout.shares_memory();
  sizes.has_copy_per_host = layout.has_copy_per_host();
  sizes.is_hierarchical = layout.backend == BackendChoice::Hierarchical;
  sizes.has_reducer = !sizes.shares_memory || distributed::reducer_option(parallel).has_value();
  sizes.has_bucket_views = parallel.gradient_as_bucket_view;
  sizes.gathers_through_copies = layout.on_cpu && !sizes.shares_memory;
  sizes.bucket_bytes = distributed::bucket_caps(parallel).bytes;
  sizes.largest_bucket = largest_bucket(trained, sizes.bucket_bytes);
  sizes.units = distributed::bytes_of_units(*run.model, shard_units(*run.model));
  sizes.gradient_units = distributed::bytes_of_gradient_units(trained, sizes.bucket_bytes);
}

}  // namespace

PlannedSizes sizes_of(const PreparedRun& run, const NamedTensors& trained,
                      const Activations& activations) {
  const auto& config = run.config;
  const auto world = static_cast<size_t>(run.ranks.world_size);
  PlannedSizes sizes;
  sizes.weights = bytes_of(tensors_of(*run.model));
  for (const auto& parameter : run.model->parameters()) sizes.parameters += parameter.nbytes();
  sizes.trained = bytes_of(trained);
  sizes.state = bytes_of_state(config, trained);
  sizes.average = config.train.ema.decay ? sizes.weights : 0;
  sizes.activations = activations.bytes.value_or(0);
  sizes.world = world;
  sizes.local_world = static_cast<size_t>(run.ranks.local_world_size);
  sizes.writers = config.checkpoint.writers == WritingRanks::All ? world : 1;
  sizes.micro_batches = static_cast<size_t>(config.train.accumulate);
  sizes.has_snapshot = config.checkpoint.async;
  add_communication(sizes, run, trained);
  return sizes;
}

}  // namespace lockstep::trainer
