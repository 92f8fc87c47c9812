#include "trainer/optimizers/foreach_optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// Elements of a block: with states and temporary tensors, less than a cache of 1 MiB.
constexpr int64_t kBlock = 32 * 1024;

bool is_sliceable(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.dim() == 0 || tensor.is_contiguous();
}

// The part of a state for `count` elements of a parameter of `numel`, from `begin` on.
at::Tensor part_of(const at::Tensor& state, int64_t numel, int64_t begin, int64_t count,
                   int64_t per_scale) {
  if (!state.defined() || state.dim() == 0) return state;
  const auto flat = state.detach().view(-1);
  if (state.numel() == numel) return flat.narrow(0, begin, count);
  return flat.narrow(0, begin / per_scale, (count + per_scale - 1) / per_scale);
}

// The fused kernels read memory without regard to strides.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& gradient) {
  const bool has_layout = gradient.strides() == parameter.strides() ||
                          (gradient.is_contiguous() && parameter.is_contiguous());
  return has_layout ? gradient : at::empty_like(parameter, gradient.options()).copy_(gradient);
}

bool is_packed(at::ScalarType type) { return at::isIntegralType(type, /*includeBool=*/true); }

// The state called `kind` of a parameter, to be copied to one of `shape` and `type`. Numbers of 8 bits
// mean something only with their scales.
at::Tensor find_like(const NamedTensors& state, const std::string& kind, const std::string& name,
                     at::IntArrayRef shape, at::ScalarType type) {
  const auto saved = find_state(state, kind, name, shape);
  if (is_packed(saved.scalar_type()) != is_packed(type))
    throw config_error(fmt::format("optimizer state '{}.{}' is {} in the checkpoint: {}", kind,
                                   name, is_packed(type) ? "not int8" : "int8",
                                   is_packed(type)
                                       ? "set optimizer.state: fp32 or bf16"
                                       : "set optimizer.name: adamw and optimizer.state: int8"));
  return saved;
}

}  // namespace

void ForeachOptimizer::Lists::clear() {
  parameters.clear();
  gradients.clear();
  for (auto& list : states) list.clear();
  indices.clear();
}

ForeachOptimizer::ForeachOptimizer(NamedTensors parameters, double lr, DecayOptions decay)
    : parameters_(std::move(parameters)), lr_(lr), decay_(decay) {}

size_t ForeachOptimizer::add_state(const char* kind, const Make& make) {
  Kind added{.name = kind, .is_late = false, .tensors = {}};
  for (const auto& [name, parameter] : parameters_) added.tensors.push_back(make(name, parameter));
  kinds_.push_back(std::move(added));
  whole_.states.emplace_back();
  block_.states.emplace_back();
  return kinds_.size() - 1;
}

size_t ForeachOptimizer::add_like(const char* kind, double value) {
  return add_state(kind, [value](const auto&, const auto& parameter) {
    return at::full_like(parameter, value, {}, at::MemoryFormat::Preserve).detach();
  });
}

size_t ForeachOptimizer::add_scalar(const char* kind, double value, bool on_device) {
  return add_state(kind, [=](const auto&, const auto& parameter) {
    const auto device = on_device ? parameter.device() : at::Device(at::kCPU);
    return at::full({}, value, at::device(device).dtype(at::kFloat));
  });
}

size_t ForeachOptimizer::add_late(const char* kind) {
  const auto index = add_state(kind, [](const auto&, const auto&) { return at::Tensor(); });
  kinds_.back().is_late = true;
  return index;
}

void ForeachOptimizer::set_state(size_t kind, size_t parameter, at::Tensor value) {
  kinds_[kind].tensors[parameter] = std::move(value);
}

void ForeachOptimizer::step(double lr) {
  collect(true, /*all=*/true);
  if (!whole_.parameters.empty()) begin_step(whole_, lr);
  for (const bool decayed : {true, false}) {
    collect(decayed, /*all=*/false);
    if (!whole_.parameters.empty()) update_all(lr, decayed ? decay_.weight_decay : 0);
  }
  whole_.clear();  // gradients must not outlive their step
}

// Lists the parameters that have gradients: all, or those that weight decay applies to, or the others.
void ForeachOptimizer::collect(bool decayed, bool all) {
  whole_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& parameter = parameters_[i].second;
    const auto& gradient = parameter.grad();
    if (!gradient.defined() || (!all && is_decayed(decay_.on, parameter) != decayed)) continue;
    whole_.parameters.push_back(parameter);
    whole_.gradients.push_back(all ? gradient : in_layout_of(parameter, gradient));
    for (size_t kind = 0; kind < kinds_.size(); ++kind)
      whole_.states[kind].push_back(kinds_[kind].tensors[i]);
    whole_.indices.push_back(i);
  }
}

void ForeachOptimizer::update_all(double lr, double weight_decay) {
  const bool is_cpu = whole_.parameters.front().is_cpu();
  if (uses_blocks() && is_cpu && at::get_num_threads() == 1)
    update_in_blocks(lr, weight_decay);
  else
    update(whole_, lr, weight_decay);
}

void ForeachOptimizer::update_in_blocks(double lr, double weight_decay) {
  int64_t size = 0;
  for (size_t i = 0; i < whole_.parameters.size(); ++i) add_blocks(i, size, lr, weight_decay);
  if (!block_.parameters.empty()) update(block_, lr, weight_decay);
  block_.clear();
}

// Adds the blocks of a tensor, and updates those that are full.
void ForeachOptimizer::add_blocks(size_t i, int64_t& size, double lr, double weight_decay) {
  const auto& parameter = whole_.parameters[i];
  const auto& gradient = whole_.gradients[i];
  const auto numel = parameter.numel();
  const bool is_cut = numel > kBlock && is_sliceable(parameter) && is_sliceable(gradient) &&
                      std::ranges::all_of(whole_.states, [i](const auto& states) {
                        return is_sliceable(states[i]);
                      });
  for (int64_t begin = 0; begin < std::max<int64_t>(numel, 1); begin += is_cut ? kBlock : numel) {
    const auto count = is_cut ? std::min(kBlock, numel - begin) : numel;
    const auto add = [&](std::vector<at::Tensor>& list, const at::Tensor& tensor) {
      list.push_back(is_cut ? part_of(tensor, numel, begin, count, kElementsPerScale) : tensor);
    };
    add(block_.parameters, parameter);
    add(block_.gradients, gradient);
    for (size_t kind = 0; kind < kinds_.size(); ++kind)
      add(block_.states[kind], whole_.states[kind][i]);
    block_.indices.push_back(whole_.indices[i]);
    size += count;
    if (numel == 0) break;
    if (size < kBlock) continue;
    update(block_, lr, weight_decay);
    block_.clear();
    size = 0;
  }
}

NamedTensors ForeachOptimizer::state() const {
  NamedTensors state;
  for (size_t i = 0; i < parameters_.size(); ++i)
    for (const auto& kind : kinds_)
      if (kind.tensors[i].defined())
        state.emplace_back(kind.name + "." + parameters_[i].first, kind.tensors[i]);
  return state;
}

void ForeachOptimizer::load_state(const NamedTensors& state) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    for (auto& kind : kinds_) {
      auto& tensor = kind.tensors[i];
      if (kind.is_late) {
        tensor.reset();
        if (!has_state(state, kind.name, name)) continue;
        tensor = at::empty_like(parameter).detach().copy_(
            find_like(state, kind.name, name, parameter.sizes(), parameter.scalar_type()));
      } else if (tensor.defined()) {
        tensor.copy_(find_like(state, kind.name, name, tensor.sizes(), tensor.scalar_type()));
      }
    }
  }
}

std::vector<double> doubles_of(const std::vector<at::Tensor>& scalars) {
  std::vector<double> values;
  for (const auto& scalar : scalars)
    values.push_back(static_cast<double>(*scalar.const_data_ptr<float>()));
  return values;
}

void verify_betas(const std::vector<double>& betas) {
  if (betas.size() != 2) throw config_error("optimizer.betas: expected two numbers");
}

}  // namespace lockstep::trainer
