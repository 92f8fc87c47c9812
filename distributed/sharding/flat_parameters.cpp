#include "distributed/sharding/flat_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "distributed/collectives.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

at::Tensor slice_of(const at::Tensor& whole, const ParameterSlice& slice) {
  if (slice.begin == 0 && slice.numel == whole.numel()) return whole.detach();
  std::vector<int64_t> sizes(static_cast<size_t>(whole.dim()), 1);
  sizes.back() = slice.numel;
  return flat_view(whole).narrow(0, slice.begin, slice.numel).view(sizes);
}

FlatParameters FlatParameters::create(World& world, const NamedTensors& parameters,
                                      FlatLayout layout) {
  if (layout.units.empty()) layout.units.resize(parameters.size());
  std::set<std::pair<size_t, at::ScalarType>> kinds;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    if (!parameter.is_non_overlapping_and_dense())
      throw config_error(fmt::format(
          "distributed.shard: parameter '{}' is not dense in memory; use distributed.shard: none",
          name));
    kinds.emplace(layout.units[i], parameter.scalar_type());
  }
  FlatParameters flat(world, parameters, std::move(layout));
  for (const auto& [unit, type] : kinds) flat.lay_out(unit, type);
  flat.find_slices();
  if (flat.copies() == Copies::PerHost) barrier(world, "parameters");
  return flat;
}

void FlatParameters::lay_out(size_t unit, at::ScalarType type) {
  Flat flat{.unit = unit};
  int64_t end = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& parameter = parameters_[i].second;
    if (layout_.units[i] != unit || parameter.scalar_type() != type) continue;
    flat.places.emplace_back(i, end);
    flat_of_[i] = flats_.size();
    end += round_up(parameter.numel(), kChunkAlignment);
  }
  const int64_t num_ranks = world_.world_size();
  flat.chunk = round_up((end + num_ranks - 1) / num_ranks, kChunkAlignment);
  flat.memory = allocate(flat, type);
  keep_own_chunk(flat);
  flats_.push_back(std::move(flat));
  move_parameters(flats_.back());
}

at::Tensor FlatParameters::allocate(const Flat& flat, at::ScalarType type) const {
  const auto size = world_.world_size() * flat.chunk;
  if (copies() == Copies::PerHost) return per_host_zeros(world_, {size}, type);
  const auto& device = parameters_[flat.places.front().first].second.device();
  const auto options = at::device(device).dtype(type);
  if (copies() == Copies::Sharded) return at::empty({size}, options);  // freed before it is used
  if (device.is_cpu()) return shared_empty(world_, {size}, type).zero_();
  return at::zeros({size}, options);
}

void FlatParameters::keep_own_chunk(Flat& flat) {
  flat.own = flat.memory.narrow(0, world_.rank() * flat.chunk, flat.chunk);
  if (copies() == Copies::Sharded) flat.own = at::zeros_like(flat.own);
  if (layout_.has_gradients) flat.gradient = at::zeros_like(flat.own);
}

void FlatParameters::move_parameters(Flat& flat) {
  const at::NoGradGuard no_grad;
  for (const auto& [index, first] : flat.places) {
    at::Tensor parameter = parameters_[index].second;
    const auto values = parameter.detach();
    parameter.set_data(at::as_strided(flat.memory, parameter.sizes(), parameter.strides(), first));
    if (layout_.has_values) set_values(index, values);
  }
  if (copies() != Copies::Sharded) return;
  auto& storage = *flat.memory.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap({nullptr, flat.memory.device()});
  storage.set_nbytes(0);
}

void FlatParameters::set_values(size_t parameter, const at::Tensor& whole) {
  const at::NoGradGuard no_grad;
  if (copies() == Copies::Sharded) return send_slices(parameter, whole);
  const bool has_values = whole.defined() && !whole.is_meta();
  if (has_values && (copies() == Copies::PerRank || world_.rank() == 0))
    parameters_[parameter].second.detach().copy_(whole);
}

// Collective. Sends each rank its slice of rank 0's `whole`.
void FlatParameters::send_slices(size_t parameter, const at::Tensor& whole) {
  const auto& [name, like] = parameters_[parameter];
  const auto num_ranks = static_cast<size_t>(world_.world_size());
  const auto rank = world_.rank();
  Exchange exchange{.sent = std::vector<int64_t>(num_ranks),
                    .received = std::vector<int64_t>(num_ranks)};
  int64_t begin = -1;  // of this rank's slice
  const auto parts = divide(parameter, {}).parts;
  for (const auto& part : parts) {
    if (rank == 0) exchange.sent[static_cast<size_t>(part.rank)] = part.numel;
    if (part.rank != rank) continue;
    begin = part.begin;
    exchange.received[0] = part.numel;
  }
  auto sent = at::empty({0}, like.options());
  if (rank == 0) {
    const bool is_laid_out =
        whole.strides() == like.strides() && whole.options().type_equal(like.options());
    sent = flat_view(
        is_laid_out ? whole
                    : at::empty_strided(like.sizes(), like.strides(), like.options()).copy_(whole));
  }
  const auto received = all_to_all(world_, sent, exchange, "initial weights " + name);
  if (begin < 0) return;
  auto& flat = flats_[flat_of_[parameter]];
  flat.own.narrow(0, first_element(parameter) + begin - rank * flat.chunk, received.numel())
      .copy_(received);
}

void FlatParameters::find_slices() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& flat = flats_[flat_of_[i]];
    const auto first = first_element(i), end = first + parameters_[i].second.numel();
    const auto chunk = std::max<int64_t>(flat.chunk, 1);
    owners_[i] = static_cast<int>(std::min<int64_t>(first / chunk, world_.world_size() - 1));
    const auto own_begin = world_.rank() * flat.chunk;
    const auto begin = std::max(first, own_begin);
    const auto count = std::min(end, own_begin + flat.chunk) - begin;
    if (count <= 0) continue;
    slices_.push_back({i, begin - first, count});
    slice_places_.push_back({flat_of_[i], begin - own_begin});
  }
}

int64_t FlatParameters::first_element(size_t parameter) const {
  const auto& places = flats_[flat_of_[parameter]].places;
  return std::ranges::find(places, parameter, &std::pair<size_t, int64_t>::first)->second;
}

bool FlatParameters::owns(size_t parameter) const { return owners_[parameter] == world_.rank(); }

// `elements`: of `slice`, one after the other.
at::Tensor FlatParameters::shaped(const at::Tensor& elements, const ParameterSlice& slice) const {
  const auto& parameter = parameters_[slice.parameter].second;
  if (slice.numel == parameter.numel())
    return at::as_strided(elements, parameter.sizes(), parameter.strides());
  std::vector<int64_t> sizes(static_cast<size_t>(parameter.dim()), 1);
  sizes.back() = slice.numel;
  return elements.view(sizes);
}

at::Tensor FlatParameters::slice(size_t i) const {
  const auto& slice = slices_[i];
  if (copies() != Copies::Sharded) return slice_of(parameters_[slice.parameter].second, slice);
  const auto& place = slice_places_[i];
  return shaped(flats_[place.flat].own.narrow(0, place.in_chunk, slice.numel), slice);
}

at::Tensor FlatParameters::slice_gradient(size_t i) const {
  const auto& slice = slices_[i];
  if (layout_.has_gradients) {
    const auto& place = slice_places_[i];
    return shaped(flats_[place.flat].gradient.narrow(0, place.in_chunk, slice.numel), slice);
  }
  const auto& parameter = parameters_[slice.parameter].second;
  auto gradient = parameter.grad();
  if (!gradient.defined()) return gradient;
  if (gradient.strides() != parameter.strides())
    gradient = at::empty_like(parameter).copy_(gradient);
  return slice_of(gradient, slice);
}

DividedTensor FlatParameters::divide(size_t parameter, const at::Tensor& own) const {
  const auto& tensor = parameters_[parameter].second;
  DividedTensor divided{
      .whole = at::empty_strided(tensor.sizes(), tensor.strides(),
                                 at::device(at::kMeta).dtype(tensor.scalar_type())),
      .parts = {},
      .own = own};
  const auto chunk = flats_[flat_of_[parameter]].chunk;
  const auto first = first_element(parameter), end = first + tensor.numel();
  for (auto begin = first; begin < end;) {
    const auto rank = begin / chunk;
    const auto stop = std::min(end, (rank + 1) * chunk);
    divided.parts.push_back({static_cast<int>(rank), begin - first, stop - begin});
    begin = stop;
  }
  return divided;
}

int64_t FlatParameters::find_slice(size_t parameter) const {
  const auto found = std::ranges::lower_bound(slices_, parameter, {}, &ParameterSlice::parameter);
  if (found == slices_.end() || found->parameter != parameter) return -1;
  return found - slices_.begin();
}

void FlatParameters::publish(std::string_view name) {
  if (copies() == Copies::Sharded) return;  // gathered when they are used
  if (copies() == Copies::PerHost) return barrier(world_, name);
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

// Collective. Sends this rank's slices of gradients in `flat` to their owners. Returns those that it
// owns, rank by rank, each in the order of the parameters.
std::vector<at::Tensor> FlatParameters::receive_slices(const Flat& flat) const {
  const auto num_ranks = static_cast<size_t>(world_.world_size());
  Exchange exchange{.sent = std::vector<int64_t>(num_ranks),
                    .received = std::vector<int64_t>(num_ranks)};
  std::vector<at::Tensor> sent = {flat.gradient.narrow(0, 0, 0)};
  bool is_needed = false;
  for (const auto& [index, first] : flat.places)
    for (const auto& part : divide(index, {}).parts) {
      const auto owner = owners_[index];
      if (part.rank == owner) continue;
      is_needed = true;
      if (part.rank == world_.rank()) {
        exchange.sent[static_cast<size_t>(owner)] += part.numel;
        sent.push_back(flat_view(slice_gradient(static_cast<size_t>(find_slice(index)))));
      }
      if (owns(index)) exchange.received[static_cast<size_t>(part.rank)] += part.numel;
    }
  if (!is_needed) return {};
  return all_to_all(world_, at::cat(sent), exchange, "gradient norms")
      .split_with_sizes(exchange.received);
}

void FlatParameters::visit_owned_gradients(const VisitGradient& visit) {
  for (const auto& flat : flats_) {
    const auto received = receive_slices(flat);
    std::vector<int64_t> next(static_cast<size_t>(world_.world_size()), 0);  // in `received`
    for (const auto& [index, first] : flat.places) {
      if (!owns(index) || parameters_[index].second.numel() == 0) continue;
      const auto own = slice_gradient(static_cast<size_t>(find_slice(index)));
      const auto parts = divide(index, {}).parts;
      if (parts.size() == 1) {
        visit(index, own);
        continue;
      }
      const auto& parameter = parameters_[index].second;
      const auto whole =
          flat_view(at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options()));
      whole.narrow(0, 0, own.numel()).copy_(flat_view(own));
      for (size_t i = 1; i < parts.size(); ++i) {
        const auto rank = static_cast<size_t>(parts[i].rank);
        whole.narrow(0, parts[i].begin, parts[i].numel)
            .copy_(received[rank].narrow(0, next[rank], parts[i].numel));
        next[rank] += parts[i].numel;
      }
      visit(index, at::as_strided(whole, parameter.sizes(), parameter.strides()));
    }
  }
}

}  // namespace lockstep::distributed
