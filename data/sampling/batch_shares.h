// How the samples of each step are divided among the ranks. Index arithmetic only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::data {

// The part of the samples that this process loads. Requires no process group.
struct Shard {
  int64_t rank = 0;   // in [0, world)
  int64_t world = 1;  // at least 1
};

struct BatchRule {
  int64_t batch_size = 0;  // samples of the order per step, of all ranks, at least 1
  bool drop_last = false;  // drop an incomplete last batch
  // If the batch size is not divisible by the number of ranks. true: the first ranks load one
  // sample more, and none is repeated; false: samples are repeated so that all ranks have the same
  // number.
  bool uneven = false;
  // A multiple of the number of ranks: each rank loads several batches for a step, those that ranks
  // of this number would load (distributed.virtual_shards). 0: one batch per rank.
  int64_t parts = 0;
};

// The batches of the rest of an epoch, on one rank. Batch k is the k-th group of `batch_size`
// samples of the order, for any number of ranks; rank r takes every W-th sample of it, starting at
// the r-th. If the ranks do not divide the batch size and the rule is not `uneven`, the first
// samples of the batch are repeated; in the last batch, which may be smaller, the first samples of
// the epoch are, as in Python's DistributedSampler. With `uneven`, a rank without a sample in the
// last batch loads one that does not count, so that it takes part in the step. With parts, a rank
// has a run of neighboring parts, loads them one after another, and `rank` and `W` above are those
// of a part.
class BatchShares {
 public:
  // `samples`: the remaining ones of the epoch, of all ranks.
  BatchShares(int64_t samples, Shard shard, BatchRule rule)
      : samples_(samples),
        shard_(shard),
        rule_(rule),
        num_parts_(rule.parts > 0 ? rule.parts : shard.world),
        parts_per_rank_(num_parts_ / shard.world),
        batch_size_(std::max<int64_t>(1, share_of(rule.batch_size))) {}

  int64_t num_batches() const {
    return rule_.drop_last ? num_whole() : (samples_ + rule_.batch_size - 1) / rule_.batch_size;
  }

  // The parts of a batch, of all ranks and of this rank.
  int64_t num_parts() const { return num_parts_; }
  int64_t parts_per_rank() const { return parts_per_rank_; }

  // Samples that this rank loads: of each batch but a smaller last one, of batch k, of all batches;
  // the first two of each part.
  int64_t batch_size() const { return batch_size_; }
  int64_t loaded(int64_t k) const { return std::max<int64_t>(1, counted(k)); }
  int64_t num_samples() const {
    const auto batches = num_batches();
    return batches == 0 ? 0 : ((batches - 1) * batch_size_ + loaded(batches - 1)) * parts_per_rank_;
  }

  // Samples of batch k that count: in each part of this rank, in all parts.
  int64_t counted(int64_t k) const { return share_of(size_of(k)); }
  int64_t counted_by_all(int64_t k) const {
    return rule_.uneven ? size_of(k) : counted(k) * num_parts_;
  }

  // The position of the `index`-th sample of this rank in the remaining order, which wraps around
  // at the end of the epoch.
  int64_t place(int64_t index) const {
    const auto per_batch = batch_size_ * parts_per_rank_;
    const auto k = std::min(index / per_batch, num_whole());
    const auto in_batch = index - k * per_batch;
    const auto size = k < num_whole() ? batch_size_ : loaded(k);  // of a part
    const auto part = shard_.rank * parts_per_rank_ + in_batch / size;
    const auto within = part + in_batch % size * num_parts_;
    return k * rule_.batch_size + (k < num_whole() ? within % rule_.batch_size : within);
  }

 private:
  int64_t num_whole() const { return samples_ / rule_.batch_size; }
  int64_t size_of(int64_t k) const {
    return std::min(rule_.batch_size, samples_ - k * rule_.batch_size);
  }
  int64_t share_of(int64_t size) const {
    const auto rest = size % num_parts_;
    return size / num_parts_ + (rule_.uneven ? shard_.rank < rest : rest > 0);
  }

  int64_t samples_;
  Shard shard_;
  BatchRule rule_;
  int64_t num_parts_, parts_per_rank_, batch_size_;
};

}  // namespace lockstep::data
