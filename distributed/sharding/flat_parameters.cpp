#include "distributed/sharding/flat_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "distributed/collectives.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

at::Tensor flat_view(const at::Tensor& tensor) {
  return at::as_strided(tensor.detach(), {tensor.numel()}, {1});
}

at::Tensor slice_of(const at::Tensor& whole, const ParameterSlice& slice) {
  if (slice.begin == 0 && slice.numel == whole.numel()) return whole.detach();
  std::vector<int64_t> sizes(static_cast<size_t>(whole.dim()), 1);
  sizes.back() = slice.numel;
  return flat_view(whole).narrow(0, slice.begin, slice.numel).view(sizes);
}

FlatParameters FlatParameters::create(World& world, const NamedTensors& parameters,
                                      Copies copies) {
  std::vector<at::ScalarType> types;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.is_non_overlapping_and_dense())
      throw config_error(fmt::format(
          "distributed.shard: parameter '{}' is not dense in memory; use distributed.shard: none",
          name));
    if (std::ranges::find(types, parameter.scalar_type()) == types.end())
      types.push_back(parameter.scalar_type());
  }
  FlatParameters flat(world, parameters, copies);
  for (const auto type : types) flat.lay_out(type);
  std::ranges::sort(flat.slices_, {}, &ParameterSlice::parameter);
  if (copies == Copies::PerHost) barrier(world, "parameters");
  return flat;
}

void FlatParameters::lay_out(at::ScalarType type) {
  Flat flat;
  int64_t end = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& parameter = parameters_[i].second;
    if (parameter.scalar_type() != type) continue;
    flat.places.emplace_back(i, end);
    end += round_up(parameter.numel(), kChunkAlignment);
  }
  const int64_t num_ranks = world_.world_size();
  flat.chunk = round_up((end + num_ranks - 1) / num_ranks, kChunkAlignment);
  flat.memory = allocate(flat, type);
  move_parameters(flat);
  const auto own_begin = world_.rank() * flat.chunk, own_end = own_begin + flat.chunk;
  for (const auto& [index, first] : flat.places) {
    owners_[index] = static_cast<int>(std::min(first / std::max<int64_t>(flat.chunk, 1),
                                               num_ranks - 1));
    const auto begin = std::max(first, own_begin);
    const auto count = std::min(first + parameters_[index].second.numel(), own_end) - begin;
    if (count > 0) slices_.push_back({index, begin - first, count});
  }
  flats_.push_back(std::move(flat));
}

at::Tensor FlatParameters::allocate(const Flat& flat, at::ScalarType type) const {
  const auto size = world_.world_size() * flat.chunk;
  if (copies_ == Copies::PerHost) return per_host_zeros(world_, {size}, type);
  const auto& device = parameters_[flat.places.front().first].second.device();
  auto memory = device.is_cpu() ? shared_empty(world_, {size}, type)
                                : at::empty({size}, at::device(device).dtype(type));
  return memory.zero_();
}

void FlatParameters::move_parameters(const Flat& flat) {
  const at::NoGradGuard no_grad;
  for (const auto& [index, first] : flat.places) {
    at::Tensor parameter = parameters_[index].second;
    const auto moved = at::as_strided(flat.memory, parameter.sizes(), parameter.strides(), first);
    if (copies_ == Copies::PerRank || world_.rank() == 0) moved.copy_(parameter);
    parameter.set_data(moved);
  }
}

void FlatParameters::publish(std::string_view name) {
  if (copies_ == Copies::PerHost) return barrier(world_, name);
  for (auto& flat : flats_) all_gather_chunks(world_, flat.memory, name);
}

std::vector<at::Tensor> FlatParameters::allocate_per_host() const {
  std::vector<at::Tensor> tensors(parameters_.size());
  for (const auto& flat : flats_) {
    const auto memory = per_host_zeros(world_, flat.memory.sizes(), flat.memory.scalar_type());
    for (const auto& [index, first] : flat.places) {
      const auto& parameter = parameters_[index].second;
      tensors[index] = memory.narrow(0, first, parameter.numel()).view(parameter.sizes());
    }
  }
  return tensors;
}

}  // namespace lockstep::distributed
