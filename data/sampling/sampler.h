// Which samples each rank sees. Index arithmetic only: no I/O, no batches.
//
// Source: the rule and the bits of Python's torch.utils.data.DistributedSampler (torch 2.11),
// pinned by tests/golden/sampler.json and compared with Python by
// tests/data/sampler_against_python.py.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/sampling/batch_shares.h"
#include "data/sampling/index_sequence.h"

namespace lockstep::data {

// Batches of samples of similar length, so that little of a padded batch is padding: of every
// `window` global batches of the order the samples are sorted by length and cut into batches anew,
// and the batches of an epoch are shuffled (but for an incomplete one, which stays the last).
struct LengthBuckets {
  std::vector<double> lengths;  // of every sample
  int64_t batch_size = 1;       // global
  int64_t window = 0;           // in global batches; 0: off
};

// Shuffling group by group (data/sampling/grouped_order.h).
struct SampleGroups {
  std::vector<int64_t> ends;  // as SampleInfo::shards; empty: off
  int64_t buffer = 1;         // minimum samples that are shuffled together
};

struct SamplerOptions {
  bool shuffle = true;  // a new permutation every epoch; false: 0, 1, 2, ...
  uint64_t seed = 0;    // the same on every rank; epoch e is permuted by seed + e
  // How a step's samples are shared out. batch_size 0: as many as there are ranks, which is
  // Python's rule: with drop_last the tail that does not divide is cut, else samples from the head
  // are repeated.
  BatchRule batches = {};
  // Not empty: as many samples as there are, drawn with replacement, each with a probability in
  // proportion to its weight (the bits of Python's WeightedRandomSampler). Takes the place of
  // shuffle.
  std::vector<double> weights;
  LengthBuckets buckets;
  // For shuffle and for weights: the drawn samples are then ordered group by group.
  SampleGroups groups;
};

// The samples of one rank in an epoch of training.
// Invariant: all ranks together cover the order once, padded by repetition (as often as it takes
// when there are more ranks than samples) or, with drop_last, truncated. Every rank gets the same
// number of indices, except with uneven batches.
//
// Note [Global order]: an epoch has one order of samples, which depends on seed and epoch only.
// A step takes the next global batch of it, whatever the number of ranks: rank r has every W-th
// sample of the batch from the r-th on. The progress of an epoch is therefore one number, samples
// done, and an epoch may be resumed with another number of ranks. (A grouped order also depends on
// its lanes.)
//
// Thread: const after set_epoch(), which belongs to the training thread.
class DistributedSampler {
 public:
  // `num_samples`: size of the dataset. Throws Config when it is not positive, the rank is outside
  // [0, world), or weights or lengths are not of that number or negative.
  DistributedSampler(int64_t num_samples, Shard shard, SamplerOptions options = {});

  // Takes effect with the next indices(). Every rank must set the same. `lanes`: of a grouped
  // order; the number of ranks that the epoch was begun with, which is the default.
  void set_epoch(int64_t epoch, std::optional<int64_t> lanes = {}) {
    epoch_ = epoch;
    lanes_ = lanes.value_or(shard_.world);
  }

  // The indices of this rank, as a list or computed on demand, each in [0, size of the
  // dataset), in what is left of the epoch after the first `done` samples of its order, which are
  // in [0, size of the dataset].
  IndexSequence sequence(int64_t done = 0) const;
  std::vector<int64_t> indices(int64_t done = 0) const { return sequence(done).all(); }

  // The batches of the same samples as indices(done).
  BatchShares shares(int64_t done = 0) const {
    return {dataset_size_ - done, shard_, options_.batches};
  }

  // The number of indices() of a whole epoch: the same in every epoch.
  int64_t num_samples() const { return shares().num_samples(); }

 private:
  std::vector<int64_t> order() const;
  bool is_grouped() const;
  bool has_groups() const { return !options_.groups.ends.empty(); }
  GroupedOrderOptions order_options(size_t kept) const;
  IndexSequence grouped(int64_t done) const;

  int64_t dataset_size_;
  Shard shard_;
  SamplerOptions options_;
  int64_t epoch_ = 0, lanes_;
};

// The split for evaluation: rank, rank + world, ... below num_samples. All ranks together see every
// sample exactly once; the counts of two ranks differ by at most one and may be 0. Throws Config as
// the constructor above.
std::vector<int64_t> exact_split(int64_t num_samples, Shard shard);

}  // namespace lockstep::data
