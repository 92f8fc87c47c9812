// Splits the batch size and the workers of a run file among the ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/launch_sections.h"
#include "data/sampling/batch_shares.h"
#include "lockstep/config_fields.h"

namespace lockstep::data {

enum class Sampling { Uniform, Weighted, ClassBalanced };
constexpr auto choices(Sampling) { return std::array{"uniform", "weighted", "class_balanced"}; }

// The keys of a run file's `data:` section that concern batches. A section with further keys
// includes these by calling fields(v, its_loader_member) in its own fields().
struct LoaderConfig : BatchSizes {
  int64_t workers = 2;   // loader threads per node; 0 loads in the training thread
  int64_t prefetch = 4;  // batches loaded ahead on each rank
  bool shuffle = true;
  bool drop_last = false;
  Sampling sampling = Sampling::Uniform;
  std::vector<double> class_weights;  // for Sampling::Weighted
  int64_t bucket_batches = 0;         // window of LengthBuckets (data/sampling/sampler.h); 0: none
  std::optional<int64_t> shuffle_buffer;  // of SampleGroups, over the dataset's shards
  std::optional<int64_t> shuffle_lanes;   // of a grouped order; none: the ranks that begin the run
  int64_t max_bad_samples = 0;            // of each rank
};

template <class V>
void fields(V& v, LoaderConfig& c) {
  fields(v, static_cast<BatchSizes&>(c));
  v("workers", c.workers,
    "loader threads per node, divided among its ranks; 0: load in the training thread", at_least(0),
    at_most(4096));
  v("prefetch", c.prefetch, "batches that each rank prefetches, for any number of workers",
    at_least(1), at_most(1024));
  v("shuffle", c.shuffle, "shuffle the training samples in every epoch");
  v("drop_last", c.drop_last,
    "true: drop the samples that do not fill a step on every rank; false: repeat some so that all "
    "ranks have the same number");
  v("sampling", c.sampling,
    "uniform: every sample once per epoch; weighted, class_balanced: drawn with replacement, by "
    "weight, or with equal probability for all classes");
  v("class_weights", c.class_weights,
    "the weight of a sample of each class, instead of the dataset's own weights", at_least(0),
    needs("data.sampling: weighted"));
  v("bucket_batches", c.bucket_batches,
    "sort the samples of this many batches by length, so that batches need little padding; 0: "
    "off",
    at_least(0), at_most(1 << 20));
  v("shuffle_buffer", c.shuffle_buffer,
    "read shard by shard (files, row groups) in a random order, shuffling at least this many "
    "samples together; for data larger than memory",
    at_least(1), at_most(int64_t{1} << 40), needs("data.shuffle: true"));
  v("shuffle_lanes", c.shuffle_lanes,
    "number of interleaved shuffle lanes: each rank reads its own shards if the number of ranks "
    "divides it, in an order that does not depend on that number (default: ranks at start)",
    at_least(1), at_most(1 << 20), needs("data.shuffle: true"), needs("data.sampling: uniform"));
  v("max_bad_samples", c.max_bad_samples,
    "skip up to this many samples per rank that cannot be loaded; one more is an error",
    at_least(0));
}

// The ranks of a job. The same on every rank, except with nodes of different sizes.
struct RankCounts {
  int64_t world = 1;  // all ranks
  int64_t local = 1;  // ranks on this node
};

struct BatchPlan {
  int64_t per_rank_batch_size = 0;  // of the rank with the most samples; with parts, of each part
  int64_t global_batch_size = 0;    // samples of the epoch's order per step, of all ranks
  int64_t workers_per_rank = 0;     // rounded up, so that every rank has one if the node has any
  int64_t batches_per_epoch = 0;    // of each rank; the last one may be smaller unless drop_last
  int64_t num_samples = 0;          // of the training set
  BatchRule rule;                   // how the samples of a step are divided
};

// `num_samples`: of the training set. `parts`: of BatchRule. Requires no process group and no device.
//
// Throws Config: both sizes given; a batch size that the ranks do not divide, unless
// batch_remainder allows it (suggests the nearest valid sizes); fewer samples than ranks; or
// drop_last without a complete batch.
BatchPlan plan_batches(const LoaderConfig& config, int64_t num_samples, RankCounts ranks,
                       int64_t parts = 0);

}  // namespace lockstep::data
