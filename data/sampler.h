// Which samples each rank sees. Index arithmetic only: no I/O, no batches.
//
// Source: the rule and the bits of Python's torch.utils.data.DistributedSampler (torch 2.11),
// pinned by tests/golden/sampler.json and compared with Python by
// tests/data/sampler_against_python.py.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// Which part of the samples belongs to this process. Plain numbers, so that no process group is
// needed here.
struct Shard {
  int64_t rank = 0;   // in [0, world)
  int64_t world = 1;  // at least 1
};

struct SamplerOptions {
  bool shuffle = true;  // a new permutation every epoch; false: 0, 1, 2, ...
  uint64_t seed = 0;    // the same on every rank; epoch e is permuted by seed + e
  // true: cut the tail that does not divide; false: repeat samples from the head.
  bool drop_last = false;
};

// The samples of one rank in an epoch of training.
// Invariant: every rank gets num_samples() indices; all ranks together cover the permutation once,
// padded by repetition (as often as it takes when there are more ranks than samples) or, with
// drop_last, truncated.
//
// Thread: const after set_epoch(), which belongs to the training thread.
class DistributedSampler {
 public:
  // `num_samples`: size of the dataset. Throws Config when it is not positive or the rank is
  // outside [0, world).
  DistributedSampler(int64_t num_samples, Shard shard, SamplerOptions options = {});

  // Takes effect with the next indices(). Every rank must set the same epoch.
  void set_epoch(int64_t epoch) { epoch_ = epoch; }

  // The indices of this rank in the epoch, each in [0, size of the dataset).
  std::vector<int64_t> indices() const;

  // How many indices() there are: the same on every rank, in every epoch.
  int64_t num_samples() const { return samples_per_rank_; }

 private:
  int64_t dataset_size_;
  Shard shard_;
  SamplerOptions options_;
  int64_t samples_per_rank_;
  int64_t epoch_ = 0;
};

// The split for evaluation: rank, rank + world, ... below num_samples. All ranks together see every
// sample exactly once; the counts of two ranks differ by at most one and may be 0. Throws Config as
// the constructor above.
std::vector<int64_t> exact_split(int64_t num_samples, Shard shard);

}  // namespace lockstep
