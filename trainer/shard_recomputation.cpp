// Trainer::recompute_of(): a virtual shard of a step is computed again, for GradientAudit.

#include "trainer/loop/trainer.h"

namespace lockstep::trainer {

GradientAudit::Recompute Trainer::recompute_of(const StepBatches& step) {
  return [this, &step](int64_t shard, const std::vector<int64_t>& samples) {
    clock_.enter(Phase::DataWait);
    // The rank that has this shard reports bad samples.
    data::Loader loader(*run_.data.train, samples,
                        {.batch_size = sampler_.shares().batch_size(),
                         .workers = plan_.workers_per_rank,
                         .prefetch = config_.data.loader.prefetch,
                         .seed = static_cast<uint64_t>(config_.run.seed),
                         .epoch = position_.epoch,
                         .device = world_.device(),
                         .name = "data.train",
                         .bad_samples = data::tolerated(config_.data.loader.max_bad_samples)});
    StepBatches batches(step, loader);
    parallel_->zero_gradients();
    while (!batches.is_last()) {
      clock_.enter(Phase::DataWait);
      const auto batch = batches.next();
      clock_.enter(Phase::Forward);
      parallel_->before_forward(/*synchronize=*/false);
      if (batches.begins_part()) shards_.begin_again(position_.step, shard);
      pass(batch, batches, /*synchronize=*/false);
    }
    shards_.end_again();
    auto checksums = audit_->checksums();
    parallel_->zero_gradients();
    return checksums;
  };
}

}  // namespace lockstep::trainer
