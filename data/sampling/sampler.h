// Selects the samples of each rank. Index arithmetic only: no I/O, no batches.
//
// Source: the algorithm and bits of Python's torch.utils.data.DistributedSampler (torch 2.11),
// pinned by tests/golden/sampler.json and compared with Python by
// tests/data/sampler_against_python.py.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/sampling/batch_shares.h"
#include "data/sampling/index_sequence.h"

namespace lockstep::data {

// Batches of samples of similar length, which need little padding: within every `window` global
// batches of the order, the samples are sorted by length and regrouped into batches, and the
// batches of an epoch are shuffled (except an incomplete one, which remains last).
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
  // How a step's samples are divided. batch_size 0: the number of ranks, which is Python's rule:
  // with drop_last the remainder is dropped, else samples from the start are repeated.
  BatchRule batches = {};
  // If not empty: draws as many samples as the dataset has, with replacement, with probabilities
  // proportional to the weights (the bits of Python's WeightedRandomSampler). Replaces shuffle.
  std::vector<double> weights;
  LengthBuckets buckets;
  // With shuffle or weights: the drawn samples are then ordered group by group.
  SampleGroups groups;
};

// The samples of one rank in an epoch of training. Invariant: all ranks together cover the order
// once, padded by repetition (several times if there are more ranks than samples) or, with
// drop_last, truncated. Every rank gets the same number of indices, except with uneven batches.
//
// Note [Global order]: an epoch has one order of samples, which depends only on seed and epoch. A
// step takes the next global batch of it, for any number of ranks: rank r gets every W-th sample of
// the batch, starting at the r-th. The progress of an epoch is therefore one number, samples done,
// and an epoch can be resumed with another number of ranks. (A grouped order also depends on its
// lanes.)
//
// Thread: const after set_epoch(), which belongs to the training thread.
class DistributedSampler {
 public:
  // `num_samples`: size of the dataset. Throws Config if it is not positive, the rank is outside
  // [0, world), or weights or lengths are negative or of another number.
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

  // The length of indices() in a whole epoch; the same in every epoch.
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

// The samples of a rank for evaluation: rank, rank + world, ... below num_samples. All ranks
// together cover every sample exactly once; their counts differ by at most one and may be 0. Throws
// Config like the constructor above.
std::vector<int64_t> exact_split(int64_t num_samples, Shard shard);

}  // namespace lockstep::data
