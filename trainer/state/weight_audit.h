// Compares the weights and the optimizer's state of all ranks, which are replicas: memory errors, a defective
// processor and code that is not deterministic change them on one rank only, and no loss shows it.
// GradientAudit compares gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lockstep/config_fields.h"
#include "lockstep/data_parallel.h"
#include "lockstep/hook.h"

namespace lockstep::trainer {

class OptimizerShard;

struct AuditConfig {
  // Steps; nullopt: off.
  std::optional<int64_t> every;            // WeightAudit
  std::optional<int64_t> gradients_every;  // GradientAudit
};

template <class V>
void fields(V& v, AuditConfig& c) {
  v("every", c.every,
    "compare the weights and the optimizer's state of all ranks every this many steps and before "
    "checkpoints, and stop with exit code 75 if they differ; with distributed.shard, only the "
    "weights (empty: never)",
    at_least(1));
  v("gradients_every", c.gradients_every,
    "every this many steps, each rank also computes the gradients of one virtual shard of another "
    "rank, and the run stops with exit code 75 before the optimizer uses them if a bit differs "
    "(empty: never)",
    at_least(1), needs("distributed.virtual_shards"));
}

// CRC-32C of the values.
int64_t checksum_of_values(const at::Tensor& values);

// Throws Config if the ranks have no replicas.
void verify_weight_audit(const AuditConfig& config, ShardStrategy shard);

class WeightAudit final : public Hook {
 public:
  // `optimizer` outlives this.
  WeightAudit(const AuditConfig& config, const OptimizerShard& optimizer)
      : config_(config), optimizer_(optimizer) {}

  // Collective ("audit"). Throw Environment, on all ranks, if weights or state differ: with the ranks
  // that differ from most, and the first tensor.
  void after_step(HookContext& run) override;
  void before_checkpoint(HookContext& run) override;

 private:
  void audit(const HookContext& run);

  AuditConfig config_;
  const OptimizerShard& optimizer_;
  int64_t audited_step_ = -1;
};

}  // namespace lockstep::trainer
