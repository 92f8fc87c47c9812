#include "trainer/prepared/block_units.h"

namespace lockstep::trainer {
namespace {

void add_blocks(torch::nn::Module& module, const std::string& name, std::vector<ShardUnit>& units) {
  if (module.as<Block>()) {
    units.push_back({name, &module});
    return;
  }
  for (const auto& child : module.named_children())
    add_blocks(*child.value(), name.empty() ? child.key() : name + "." + child.key(), units);
}

}  // namespace

std::vector<ShardUnit> shard_units(Model& model) {
  std::vector<ShardUnit> units;
  add_blocks(model, "", units);
  return units;
}

BlockUnits::BlockUnits(const std::vector<ShardUnit>& units, DataParallel& parallel)
    : parallel_(parallel) {
  for (size_t i = 0; i < units.size(); ++i) {
    auto* const block = units[i].module->as<Block>();
    unit_of_[block] = i;
    block->set_observer(this);
  }
}

BlockUnits::~BlockUnits() {
  for (const auto& [block, unit] : unit_of_) block->set_observer(nullptr);
}

void BlockUnits::before_forward(Block& block) { parallel_.before_unit(unit_of_.at(&block)); }

void BlockUnits::after_forward(Block& block, const at::Tensor& output) {
  parallel_.after_unit(unit_of_.at(&block), output);
}

void BlockUnits::hold(const std::vector<Block*>& now, const std::vector<Block*>& next) {
  const auto units_of = [&](const std::vector<Block*>& blocks) {
    std::vector<size_t> units;
    for (auto* const block : blocks) units.push_back(unit_of_.at(block));
    return units;
  };
  parallel_.hold_units(units_of(now), units_of(next));
}

}  // namespace lockstep::trainer
