// A dataset hands out whole batches, so that one in memory or mapped is a single gather.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/config/registry.h"
#include "data/batch.h"

namespace lockstep {

// One field of every sample, where all have the same shape.
struct FieldLayout {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;  // of one sample; empty: a number
  bool operator==(const FieldLayout&) const = default;
};

// Which samples, and the key of their augmentation: SampleRandom(seed, epoch, index) in
// data/random.h, so that it depends on neither workers nor ranks.
struct SampleRequest {
  std::span<const int64_t> indices;  // each in [0, size())
  uint64_t seed = 0;
  int64_t epoch = 0;
  // Of how many shards (SampleInfo) the samples of this and the next requests are: whoever keeps so
  // many loads each once.
  int64_t nearby_groups = 1;
};

// A number of every sample. Called when an order needs it; may read the files. Empty: not known.
using SampleNumbers = std::function<std::vector<double>()>;
inline std::vector<double> no_sample_numbers() { return {}; }

// What is known of the samples without loading them one by one. Valid as long as the dataset.
struct SampleInfo {
  // Where samples are stored together, such as the files of a set of them or the row groups of
  // Parquet: the end of each such shard, ascending, the last one size(). Empty: in one piece.
  std::vector<int64_t> shards = {};
  // Whether reading one sample is as expensive as reading its shard. A shuffled order then goes
  // from shard to shard; other data only do with data.shuffle_buffer.
  bool reads_whole_shards = false;
  // Classes, for balanced orders; lengths, for batches of similar length; weights, for weighted
  // sampling.
  SampleNumbers labels = no_sample_numbers, lengths = no_sample_numbers,
                weights = no_sample_numbers;
};

// size() and get_batch() make a dataset. One whose samples all have the same shape has layout() and
// fill() instead of get_batch(): its samples go straight into the loader's reused (on CUDA
// page-locked) memory, several workers share a batch, and it may augment.
//
// Thread: const and safe to call from several loader threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Number of samples.
  virtual int64_t size() const = 0;

  // Called once, before anything but size(): what a dataset must know of the training samples, such
  // as means and vocabularies, and nothing of others. `training`: of `train_set`; empty: all of
  // them. `train_set` is this dataset, or the one that a model that is evaluated on this one was
  // trained on, which has learned before.
  virtual void learn(const Dataset& /*train_set*/, std::span<const int64_t> /*training*/) {}

  // What orders of the samples are made of.
  virtual SampleInfo sample_info() const { return {}; }

  // The samples `indices` (each in [0, size())), in that order. Throws Environment when their
  // storage fails, naming file and sample. As a default, what fill() gives.
  virtual Batch get_batch(std::span<const int64_t> indices) const;

  // The fields of every sample; empty when their shapes differ or fill() is not offered.
  virtual std::vector<FieldLayout> layout() const { return {}; }

  // Writes the samples into `fields`: for each field of layout() a contiguous CPU tensor
  // [number of indices, shape...]. Called only where layout() is not empty. Throws as get_batch().
  virtual void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const;

  // What the numbers it gives mean, for whoever uses the model later: {"classes": [...],
  // "columns": {...}}. Null when there is nothing to say. After learn().
  virtual Json meaning() const { return {}; }

  // What the user should know, a line each, such as how many records were left out.
  virtual std::vector<std::string> remarks() const { return {}; }
};

// A batch of fresh memory, filled by dataset.fill().
Batch gather(const Dataset& dataset, const SampleRequest& request);

using DatasetRegistry = Registry<Dataset>;
DatasetRegistry& dataset_registry();

}  // namespace lockstep

// Once per dataset, at namespace scope of its file. `type`: a Dataset with a Config and a
// constructor from it.
#define REGISTER_DATASET(name, type, help)                            \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::dataset_registry(), name, help)
