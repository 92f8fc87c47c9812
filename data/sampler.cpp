#include "data/sampler.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include "core/error.h"

namespace lockstep {
namespace {

void verify(int64_t num_samples, Shard shard) {
  if (num_samples <= 0) throw config_error("the dataset is empty: at least one sample is needed");
  if (shard.world < 1 || shard.rank < 0 || shard.rank >= shard.world)
    throw config_error(fmt::format("rank {} is outside a world of {}", shard.rank, shard.world));
}

}  // namespace

DistributedSampler::DistributedSampler(int64_t num_samples, Shard shard, SamplerOptions options)
    : dataset_size_(num_samples), shard_(shard), options_(options) {
  verify(num_samples, shard);
  const auto whole = num_samples / shard.world;
  const bool divides = num_samples % shard.world == 0;
  samples_per_rank_ = divides || options.drop_last ? whole : whole + 1;
}

std::vector<int64_t> DistributedSampler::indices() const {
  at::Tensor order;
  if (options_.shuffle) {
    // The same generator and kernel as Python's torch.randperm(n, generator=g), hence the same
    // bits.
    const auto generator =
        at::detail::createCPUGenerator(options_.seed + static_cast<uint64_t>(epoch_));
    order = at::randperm(dataset_size_, generator, at::kLong);
  }
  const auto* permuted = order.defined() ? order.const_data_ptr<int64_t>() : nullptr;
  std::vector<int64_t> mine(static_cast<size_t>(samples_per_rank_));
  auto position = shard_.rank;
  for (auto& index : mine) {
    // Python appends the head of the order, repeated if need be, to its end: reading modulo the
    // size is the same.
    const auto wrapped = position % dataset_size_;
    index = permuted ? permuted[wrapped] : wrapped;
    position += shard_.world;
  }
  return mine;
}

std::vector<int64_t> exact_split(int64_t num_samples, Shard shard) {
  verify(num_samples, shard);
  std::vector<int64_t> mine;
  mine.reserve(static_cast<size_t>(num_samples / shard.world + 1));
  for (auto index = shard.rank; index < num_samples; index += shard.world) mine.push_back(index);
  return mine;
}

}  // namespace lockstep
