// The blocks of a model (lockstep::Block) as units of DataParallel.
#pragma once

#include <map>
#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

// The blocks of `model` that are not inside of another block.
std::vector<ShardUnit> shard_units(Model& model);

// Tells a DataParallel when the blocks of its model are used.
class BlockUnits final : public Block::Observer {
 public:
  // `units`: shard_units() of the model. The arguments outlive this.
  BlockUnits(const std::vector<ShardUnit>& units, DataParallel& parallel);
  ~BlockUnits() override;
  BlockUnits(const BlockUnits&) = delete;
  BlockUnits& operator=(const BlockUnits&) = delete;

  void before_forward(Block& block) override;
  void after_forward(Block& block, const at::Tensor& output) override;
  void hold(const std::vector<Block*>& now, const std::vector<Block*>& next) override;

 private:
  DataParallel& parallel_;
  std::map<Block*, size_t> unit_of_;
};

}  // namespace lockstep::trainer
