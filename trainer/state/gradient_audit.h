// Computes a part of a step's gradients a second time, on another rank, and compares the bits, since
// the gradients of a virtual shard are a function of weights, samples and random state. A processor
// or memory that computes wrongly is found before the optimizer uses the result.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

// In an audited step, one shard of each rank is computed again, by another rank. From one audit to
// the next, the shards take turns, then the ranks that compute them. With one rank, it computes
// its own shards again.
//
// Thread: the training thread.
class GradientAudit {
 public:
  using Checksums = std::vector<int64_t>;  // of the gradient of each parameter
  // The samples of this rank's part: indices of the dataset, as many on all ranks.
  using SamplesOf = std::function<std::vector<int64_t>(int64_t part)>;
  // Computes the gradients of a shard in the current step, and leaves the state of the step as it is;
  // possibly collective, with another shard on each rank.
  using Recompute = std::function<Checksums(int64_t shard, const std::vector<int64_t>& samples)>;

  // `every`: steps. `num_shards`: of all ranks. `parameters`: those with gradients. `world` outlives
  // this.
  GradientAudit(int64_t every, int64_t num_shards, World& world, NamedTensors parameters);

  bool is_due(int64_t step) const { return step % every_ == 0; }

  // Collective, before the passes of a step that is due: computes a shard of another rank.
  void begin_step(int64_t step, const SamplesOf& samples_of, const Recompute& recompute);

  // After the last pass of each part of this rank, before its gradients are added to others.
  void end_part(int64_t part);

  // Collective, before the optimizer. If a result differs, all ranks compute that shard again to
  // find out who is wrong, and throw Environment: with step, shard, ranks and first tensor.
  void end_step(const Recompute& recompute);

  // The checksums of the parameters' gradients.
  Checksums checksums() const;

 private:
  int64_t auditor_of(int64_t rank) const { return (rank + shift_) % world_.world_size(); }
  std::vector<int64_t> samples_of(int64_t rank) const;
  [[noreturn]] void report(int64_t owner, const std::vector<std::vector<Checksums>>& all,
                           const Recompute& recompute) const;

  int64_t every_, per_rank_;
  World& world_;
  NamedTensors parameters_;
  int64_t step_ = 0;
  int64_t part_ = 0, shift_ = 0;  // in this step: the part of each rank, and from owner to auditor
  at::Tensor samples_;            // of that part of each rank, [ranks, samples]
  Checksums own_, other_;         // of this rank's part, and of the one that it computed again
};

}  // namespace lockstep::trainer
