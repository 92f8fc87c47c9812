#include "trainer/loop/module_costs.h"

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "trainer/prepared/block_units.h"

namespace lockstep::trainer {
namespace {

std::vector<ShardUnit> observed_units(Model& model, bool by_block) {
  return by_block ? shard_units(model) : std::vector<ShardUnit>();
}

// LibTorch's profiler and LiveMemory cannot count at the same time.
bool is_profiled() {
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr;
}

// "Linear" of "torch::nn::LinearImpl".
std::string type_of(const torch::nn::Module& module) {
  auto name = module.name();
  if (const auto at = name.rfind("::"); at != std::string::npos) name.erase(0, at + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

}  // namespace

ModuleCosts::ModuleCosts(Model& model, at::Device device, bool by_block)
    : model_(model), device_(device), counter_(observed_units(model, by_block).size()) {
  for (const auto& unit : observed_units(model, by_block)) {
    auto* const block = unit.module->as<Block>();
    part_of_[unit.module] = parts_.size();
    parts_.push_back({.block = block, .observer = block->observer()});
    block->set_observer(this);
  }
}

ModuleCosts::~ModuleCosts() {
  for (const auto& part : parts_) part.block->set_observer(part.observer);
}

void ModuleCosts::before_forward(Block& block) {
  const auto number = part_of_.at(&block);
  if (auto* const observer = parts_[number].observer) observer->before_forward(block);
  parts_[number].is_counted = true;
  memory_.reset();
  if (!is_profiled())
    memory_ = std::make_unique<LiveMemory>(device_, std::numeric_limits<size_t>::max());
  counter_.begin_part(number);
}

void ModuleCosts::after_forward(Block& block, const at::Tensor& output) {
  counter_.end_part();
  auto& part = parts_[part_of_.at(&block)];
  if (memory_) part.activation_bytes = std::max(part.activation_bytes.value_or(0), memory_->live());
  memory_.reset();
  if (part.observer) part.observer->after_forward(block, output);
}

void ModuleCosts::hold(const std::vector<Block*>& now, const std::vector<Block*>& next) {
  for (const auto& part : parts_)
    if (part.observer) return part.observer->hold(now, next);  // that of all blocks
}

void ModuleCosts::add_module(Table& table, const std::string& name,
                             const torch::nn::Module& module) const {
  int64_t parameters = 0, trainable = 0;
  size_t bytes = 0, gradient_bytes = 0;
  for (const auto& parameter : module.parameters()) {
    parameters += parameter.numel();
    bytes += parameter.nbytes();
    if (!parameter.requires_grad()) continue;
    trainable += parameter.numel();
    gradient_bytes += parameter.nbytes();
  }
  Json flops, activation_bytes;
  const auto part = part_of_.find(&module);
  if (&module == &model_ && counter_.count() > 0) flops = counter_.count();
  if (part != part_of_.end() && parts_[part->second].is_counted) {
    flops = counter_.count_of_part(part->second);
    if (const auto kept = parts_[part->second].activation_bytes) activation_bytes = *kept;
  }
  table.rows.push_back({name.empty() ? "(the model)" : name, type_of(module), parameters, trainable,
                        bytes, gradient_bytes, activation_bytes, flops});
  if (part != part_of_.end()) return;
  for (const auto& child : module.named_children())
    add_module(table, name.empty() ? child.key() : name + "." + child.key(), *child.value());
}

Table ModuleCosts::table(const Moment& at) const {
  Table table{.at = at,
              .columns = {"module", "type", "parameters", "trainable", "bytes", "gradient bytes",
                          "activation bytes", "FLOPs"}};
  table.at.name = "model/modules";
  add_module(table, "", model_);
  if (std::ranges::none_of(parts_, &Part::is_counted)) return table;
  auto rest = counter_.count();
  for (size_t i = 0; i < parts_.size(); ++i) rest -= counter_.count_of_part(i);
  table.rows.push_back(
      {"(outside of the blocks)", "", nullptr, nullptr, nullptr, nullptr, nullptr, rest});
  return table;
}

}  // namespace lockstep::trainer
