#include "trainer/prepared/virtual_shards.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <optional>
#include <string>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/error.h"
#include "lockstep/sample_random.h"
#include "trainer/prepared/shard_choice.h"

namespace lockstep::trainer {
namespace {

// The first setting that cannot be combined with virtual shards.
std::optional<std::string> conflict_of(const RunConfig& config) {
  const auto& parallel = config.distributed.data_parallel;
  if (const auto option = distributed::reducer_option(parallel)) return option;
  if (!parallel.broadcast_buffers) return "distributed.broadcast_buffers: false";
  if (config.train.cuda_graph) return "train.cuda_graph";
  if (config.distributed.backend == BackendChoice::Hierarchical)
    return "distributed.backend: hierarchical";
  return std::nullopt;
}

std::vector<at::Tensor> copy_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

void copy_values(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace

void verify_virtual_shards(const PreparedRun& run) {
  const auto& parallel = run.config.distributed.data_parallel;
  if (!parallel.virtual_shards) return;
  if (const auto conflict = conflict_of(run.config))
    throw config_error(fmt::format(
        "distributed.virtual_shards cannot be combined with {}; remove one", *conflict));
  if (run.ranks.world_size > 2 && !layout_of(run).on_cpu &&
      !distributed::shards_gradients(parallel.shard))
    throw config_error(
        "distributed.virtual_shards on more than two GPUs needs "
        "distributed.shard: gradients or full, whose order of sums is known");
  for (const auto& parameter : run.model->named_parameters())
    if (parameter.value().requires_grad() && parameter.value().element_size() < 4)
      throw config_error(
          fmt::format("distributed.virtual_shards needs gradients of 32 or 64 bits, but parameter "
                      "'{}' has type {}",
                      parameter.key(), c10::toString(parameter.value().scalar_type())));
}

void verify_recomputation(const RunConfig& config) {
  if (!config.train.audit.gradients_every) return;
  if (selects_gpu(config.distributed.device) && !config.train.deterministic)
    throw config_error(
        "train.audit.gradients_every compares bits, which needs train.deterministic: true on a "
        "GPU");
  if (config.data.train.name() == "program")
    throw config_error(
        "train.audit.gradients_every reads samples a second time, which dataset 'program' cannot; "
        "remove this key");
}

VirtualShards::VirtualShards(int64_t num_shards, int64_t seed, const World& world,
                             const Model& model)
    : seed_(seed),
      per_rank_(num_shards / world.world_size()),
      first_shard_(world.rank() * per_rank_) {
  if (per_rank_ > 0)
    for (const auto& buffer : model.buffers()) buffers_.push_back(buffer.detach());
}

void VirtualShards::seed(int64_t step, int64_t shard) const {
  SampleRandom random(static_cast<uint64_t>(seed_), step, shard);
  const auto high = static_cast<uint64_t>(random.bits());
  at::manual_seed(high << 32 | random.bits());
}

void VirtualShards::begin_part(int64_t step, int64_t part) {
  if (per_rank_ == 0) return;
  seed(step, first_shard_ + part);
  if (per_rank_ == 1 || buffers_.empty()) return;
  const at::NoGradGuard no_grad;
  if (part == 0) {
    begun_ = copy_of(buffers_);
    return;
  }
  if (part == 1 && first_shard_ == 0) of_first_ = copy_of(buffers_);
  copy_values(buffers_, begun_);
}

void VirtualShards::begin_again(int64_t step, int64_t shard) {
  seed(step, shard);
  const at::NoGradGuard no_grad;
  if (step_again_ == step) return copy_values(buffers_, begun_again_);
  begun_again_ = copy_of(buffers_);
  step_again_ = step;
}

void VirtualShards::end_again() {
  const at::NoGradGuard no_grad;
  copy_values(buffers_, begun_again_);
}

void VirtualShards::end_step() {
  if (of_first_.empty()) return;
  const at::NoGradGuard no_grad;
  copy_values(buffers_, of_first_);
}

}  // namespace lockstep::trainer
