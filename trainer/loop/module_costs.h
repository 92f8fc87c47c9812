// What the modules of a model cost in a step: floating-point operations, and memory of parameters,
// gradients and activations (tracking.modules).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/record.h"
#include "trainer/metrics/flop_counter.h"
#include "trainer/metrics/live_memory.h"

namespace lockstep::trainer {

// Counts the operations of this process during its lifetime, and observes the blocks of the model
// (lockstep::Block) if `by_block`. LibTorch's modules have no hooks: operations and activations of
// other modules are not known.
// Thread: that of the forward passes, which also creates and destroys it.
class ModuleCosts final : public Block::Observer {
 public:
  // The model outlives this.
  ModuleCosts(Model& model, at::Device device, bool by_block);
  ~ModuleCosts() override;
  ModuleCosts(const ModuleCosts&) = delete;
  ModuleCosts& operator=(const ModuleCosts&) = delete;

  int64_t flops() const { return counter_.count(); }

  // The table model/modules: the model, its modules down to the blocks, and what is outside of the
  // blocks. Empty cells: not known.
  Table table(const Moment& at) const;

  void before_forward(Block& block) override;
  void after_forward(Block& block, const at::Tensor& output) override;
  void hold(const std::vector<Block*>& now, const std::vector<Block*>& next) override;

 private:
  struct Part {
    Block* block = nullptr;
    Block::Observer* observer = nullptr;  // before this; may be null
    bool is_counted = false;
    std::optional<int64_t> activation_bytes = {};  // of the forward pass with the most
  };

  void add_module(Table& table, const std::string& name, const torch::nn::Module& module) const;

  Model& model_;
  at::Device device_;
  std::vector<Part> parts_;
  std::map<const torch::nn::Module*, size_t> part_of_;
  FlopCounter counter_;
  std::unique_ptr<LiveMemory> memory_;  // during the forward pass of a block
};

}  // namespace lockstep::trainer
