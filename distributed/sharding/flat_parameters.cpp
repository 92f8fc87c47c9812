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

FlatParameters FlatParameters::create(World& world, const NamedTensors& parameters) {
  std::vector<at::ScalarType> types;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.is_non_overlapping_and_dense())
      throw config_error(fmt::format(
          "distributed.shard: parameter '{}' is not dense in memory; use distributed.shard: none",
          name));
    if (std::ranges::find(types, parameter.scalar_type()) == types.end())
      types.push_back(parameter.scalar_type());
  }
  FlatParameters flat(world);
  for (const auto type : types) flat.lay_out(parameters, type);
  std::ranges::sort(flat.slices_, {}, &ParameterSlice::parameter);
  return flat;
}

void FlatParameters::lay_out(const NamedTensors& parameters, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<size_t, int64_t>> places;  // parameter, first element
  int64_t end = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& parameter = parameters[i].second;
    if (parameter.scalar_type() != type) continue;
    places.emplace_back(i, end);
    end += round_up(parameter.numel(), kChunkAlignment);
  }
  const int64_t num_ranks = world_.world_size();
  Flat flat{.chunk = round_up((end + num_ranks - 1) / num_ranks, kChunkAlignment)};
  const auto& device = parameters[places.front().first].second.device();
  flat.memory = device.is_cpu()
                    ? shared_empty(world_, {num_ranks * flat.chunk}, type)
                    : at::empty({num_ranks * flat.chunk}, at::device(device).dtype(type));
  flat.memory.zero_();
  const auto own_begin = world_.rank() * flat.chunk, own_end = own_begin + flat.chunk;
  for (const auto& [index, first] : places) {
    at::Tensor parameter = parameters[index].second;
    const auto moved = at::as_strided(flat.memory, parameter.sizes(), parameter.strides(), first);
    moved.copy_(parameter);
    parameter.set_data(moved);
    const auto begin = std::max(first, own_begin);
    const auto count = std::min(first + parameter.numel(), own_end) - begin;
    if (count > 0) slices_.push_back({index, begin - first, count});
  }
  flats_.push_back(std::move(flat));
}

void FlatParameters::all_gather(std::string_view name) {
  for (auto& flat : flats_) all_gather_chunks(world_, flat.memory, name);
}

}  // namespace lockstep::distributed
