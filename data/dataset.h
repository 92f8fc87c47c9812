// A dataset hands out whole batches, so that one in memory or mapped is a single gather.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/registry.h"
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
  // Of how many groups (Dataset::groups()) the samples of this and the next requests are: whoever
  // keeps so many loads each once.
  int64_t nearby_groups = 1;
};

// size() and get_batch() make a dataset. One whose samples all have the same shape can offer more:
// with layout() and fill() its samples go straight into the loader's reused (on CUDA page-locked)
// memory, several workers share a batch, and it may augment.
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

  // Where samples lie together, and reading one is as dear as reading all of them: the end of each
  // such group, ascending, the last one size(). Training then goes from group to group. Empty: any
  // order costs the same.
  virtual std::vector<int64_t> groups() const { return {}; }

  // Where samples are stored together, such as the files of a set of them, whether or not one alone
  // is dear: as groups() says. For orders that read one shard after the other
  // (data.shuffle_buffer).
  virtual std::vector<int64_t> shards() const { return groups(); }

  // The samples `indices` (each in [0, size())), in that order. Throws Environment when their
  // storage fails, naming file and sample.
  virtual Batch get_batch(std::span<const int64_t> indices) const = 0;

  // The fields of every sample; empty when their shapes differ or fill() is not offered.
  virtual std::vector<FieldLayout> layout() const { return {}; }

  // Writes the samples into `fields`: for each field of layout() a contiguous CPU tensor
  // [number of indices, shape...]. Called only where layout() is not empty. Throws as get_batch().
  virtual void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const;

  // A number of every sample that is known without loading it: "label" (its class), "length" (for
  // batches of similar length), "weight" (for weighted sampling). Empty when it is not known.
  virtual std::vector<double> values(const std::string& what) const;

  // What the numbers it gives mean, for whoever uses the model later: {"classes": [...],
  // "columns": {...}}. Null when there is nothing to say. After learn().
  virtual Json meaning() const { return {}; }

  // What the user should know, a line each, such as how many records were left out.
  virtual std::vector<std::string> remarks() const { return {}; }
};

// A batch of fresh memory, filled by dataset.fill(): what get_batch() returns where that is
// offered.
Batch gather(const Dataset& dataset, const SampleRequest& request);

using DatasetRegistry = Registry<Dataset>;
DatasetRegistry& dataset_registry();

}  // namespace lockstep

// Once per dataset, at namespace scope of its file. `type`: a Dataset with a Config and a
// constructor from it.
#define REGISTER_DATASET(name, type, help)                            \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::dataset_registry(), name, help)
