// The interface of datasets. A dataset returns whole batches, so that one in memory is a single
// gather.
//
// Example:
//   struct CountingConfig {
//     int64_t samples = 100;
//   };
//   template <class V>
//   void fields(V& v, CountingConfig& c) {
//     v("samples", c.samples, "number of samples", lockstep::at_least(1));
//   }
//
//   class Counting final : public lockstep::Dataset {
//    public:
//     using Config = CountingConfig;
//     explicit Counting(const Config& config) : config_(config) {}
//     int64_t size() const override { return config_.samples; }
//     lockstep::Batch get_batch(std::span<const int64_t> indices) const override {
//       const auto chosen = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()));
//       const auto x = chosen.to(at::kFloat) / config_.samples;
//       return {.fields = {{"x", x.unsqueeze(1)}, {"y", 2 * x + 1}}, .indices = chosen};
//     }
//
//    private:
//     Config config_;
//   };
//   REGISTER_DATASET("counting", Counting, "points of a line: x in [0, 1)");
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/registry.h"

namespace lockstep {

// One field of every sample, where all have the same shape.
struct FieldLayout {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;  // of one sample; empty: a number
  bool operator==(const FieldLayout&) const = default;
};

// Which samples, and the key of their augmentation: SampleRandom(seed, epoch, index)
// (sample_random.h) does not depend on workers or ranks.
struct SampleRequest {
  std::span<const int64_t> indices;  // each in [0, size())
  uint64_t seed = 0;
  int64_t epoch = 0;
  // How many shards (SampleInfo) the samples of this and the next requests come from: a dataset
  // that caches so many shards loads each once.
  int64_t nearby_groups = 1;
};

// A number for every sample. Called when a sampler needs it; may read the files. Empty: not known.
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
  // Classes, for balanced sampling; lengths, for batches of similar length; weights, for weighted
  // sampling.
  SampleNumbers labels = no_sample_numbers, lengths = no_sample_numbers,
                weights = no_sample_numbers;
};

// A dataset implements size() and get_batch(). One whose samples all have the same shape implements
// layout() and fill() instead of get_batch(): its samples are written into the loader's reused (for
// CUDA: pinned) memory, several workers share a batch, and it may augment.
//
// Thread: const and safe to call from several loader threads at once. Not collective: ranks call it
// at different times.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Number of samples.
  virtual int64_t size() const = 0;

  // Computes statistics of the training samples, such as means and vocabularies. Called once,
  // before anything but size(). `train_set` is this dataset or, for an evaluation set, the training
  // set, which has learned before. `training`: indices in `train_set`; empty: all of them.
  virtual void learn(const Dataset& /*train_set*/, std::span<const int64_t> /*training*/) {}

  // What samplers use.
  virtual SampleInfo sample_info() const { return {}; }

  // The samples `indices` (each in [0, size())), in that order. Throws Environment when their
  // storage fails, with file and sample. By default, uses fill().
  virtual Batch get_batch(std::span<const int64_t> indices) const;

  // The fields of every sample; empty when their shapes differ or fill() is not offered.
  virtual std::vector<FieldLayout> layout() const { return {}; }

  // Writes the samples into `fields`: for each field of layout() a contiguous CPU tensor
  // [number of indices, shape...]. Called only where layout() is not empty. Throws as get_batch().
  virtual void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const;

  // What the numbers mean, stored with checkpoints for later use of the model: {"classes": [...],
  // "columns": {...}}. Null: nothing. Called after learn().
  virtual Json meaning() const { return {}; }

  // Remarks for the user, one line each, such as the number of records that were skipped.
  virtual std::vector<std::string> remarks() const { return {}; }
};

// A batch in new memory, filled by dataset.fill().
Batch gather(const Dataset& dataset, const SampleRequest& request);

using DatasetRegistry = Registry<Dataset>;
DatasetRegistry& dataset_registry();

}  // namespace lockstep

// At namespace scope, once per dataset. `type`: a Dataset with a Config and a constructor from it.
#define REGISTER_DATASET(name, type, help)                            \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::dataset_registry(), name, help)
