// Training with the bits of a fixed number of ranks, the virtual shards, on any smaller number
// (distributed.virtual_shards). Each rank computes the parts of a step that its shards would. Their
// samples are divided by data/sampling/batch_shares.h, and their gradients are added by
// DataParallel. This makes the rest independent of the number of ranks: random numbers and buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/world.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Throws Config if a run with virtual shards, whose strategy of sharding is chosen, cannot have the
// same bits on every number of ranks.
void verify_virtual_shards(const PreparedRun& run);

// Throws Config if train.audit.gradients_every is set and a shard cannot be computed again.
void verify_recomputation(const RunConfig& config);

class VirtualShards {
 public:
  // `world` and `model` outlive this. `num_shards`: 0: none, and the functions have no effect.
  VirtualShards(int64_t num_shards, int64_t seed, const World& world, const Model& model);

  // Whether a rank has several: the passes of a step do not synchronize, DataParallel::end_part() does.
  bool adds_parts() const { return per_rank_ > 1; }

  // Call after DataParallel::before_forward() of the first pass of each part of a step: random
  // numbers are a function of the seed, the step and the shard, and all parts of a step begin with
  // the same buffers.
  void begin_part(int64_t step, int64_t part);

  // For a part that is computed again during the step, of any shard: begin_again() replaces
  // begin_part(), with the same random numbers and buffers. After its passes, end_again() restores
  // the buffers that the step began with.
  void begin_again(int64_t step, int64_t shard);
  void end_again();

  // After the last part: buffers are those of the first shard, as rank 0's are without virtual shards.
  void end_step();

 private:
  void seed(int64_t step, int64_t shard) const;

  int64_t seed_, per_rank_, first_shard_;
  std::vector<at::Tensor> buffers_;           // of the model
  std::vector<at::Tensor> begun_, of_first_;  // values at the begin of a step, after its first part
  std::vector<at::Tensor> begun_again_;       // values at the begin of the step `step_again_`
  int64_t step_again_ = -1;
};

}  // namespace lockstep::trainer
