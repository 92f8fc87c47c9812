// The interface of datasets. A dataset returns whole batches, so that an in-memory dataset needs
// only one gather per batch.
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
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/registry.h"

namespace lockstep {

// One field of a sample, for datasets in which all samples have the same shape.
struct FieldLayout {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;  // of one sample; empty: a number
  bool operator==(const FieldLayout&) const = default;
};

// A request for samples. Augmentation uses SampleRandom(seed, epoch, index) (sample_random.h),
// which does not depend on workers or ranks.
struct SampleRequest {
  std::span<const int64_t> indices;  // each in [0, size())
  uint64_t seed = 0;
  int64_t epoch = 0;
  // The number of shards (SampleInfo) that this and the next requests draw from: a dataset that
  // caches this many shards loads each of them once.
  int64_t nearby_groups = 1;
};

// Returns one number per sample; empty: unknown. Called when a sampler needs it; may read the
// files.
using SampleNumbers = std::function<std::vector<double>()>;
inline std::vector<double> no_sample_numbers() { return {}; }

// Metadata of the samples that is available without loading each of them. Valid as long as the
// dataset exists.
struct SampleInfo {
  // The end of each shard, ascending; the last one is size(). A shard is a unit of storage, such as
  // a file or a row group of a Parquet file. Empty: the dataset is not divided.
  std::vector<int64_t> shards = {};
  // Whether reading one sample is as expensive as reading its shard. A shuffled order then visits
  // shard after shard; for other data this requires data.shuffle_buffer.
  bool reads_whole_shards = false;
  // Classes for balanced sampling, lengths for bucketing, weights for weighted sampling.
  SampleNumbers labels = no_sample_numbers, lengths = no_sample_numbers,
                weights = no_sample_numbers;
  // Begins to fetch these shards, numbers in `shards`, in this order: the loader will need samples of
  // them next. Returns at once. Empty: the dataset has nothing to fetch.
  std::function<void(const std::vector<size_t>&)> fetch_ahead = {};
};

// A dataset implements size() and get_batch(). If all samples have the same shape, it can implement
// layout() and fill() instead of get_batch(): samples are then written into the loader's reused
// (for CUDA: pinned) memory, several workers share a batch, and the dataset can augment samples.
//
// Thread: const methods must be safe to call from several loader threads concurrently. Not
// collective: ranks call them at different times.
class Dataset : public std::enable_shared_from_this<Dataset> {
 public:
  virtual ~Dataset() = default;

  // Number of samples.
  virtual int64_t size() const = 0;

  // Computes statistics of the training samples, such as means and vocabularies. Called once,
  // before any function except size(). `train_set`: this dataset or, for an evaluation set, the
  // training set, which is already fitted. `training`: indices in `train_set`; empty: all samples.
  virtual void fit(const Dataset& /*train_set*/, std::span<const int64_t> /*training*/) {}

  // Metadata for samplers.
  virtual SampleInfo sample_info() const { return {}; }

  // Returns the samples `indices` (each in [0, size())), in that order: a row of each field per
  // index; another number is an error. Batch::indices may be undefined. Throws Environment, naming
  // file and sample, when they cannot be read. The default implementation calls fill().
  virtual Batch get_batch(std::span<const int64_t> indices) const;

  // As get_batch(), for datasets without a layout() whose samples depend on the seed or the epoch. The
  // default implementation calls get_batch().
  virtual Batch get_samples(const SampleRequest& request) const {
    return get_batch(request.indices);
  }

  // The fields of a sample; empty when shapes differ or fill() is not implemented.
  virtual std::vector<FieldLayout> layout() const { return {}; }

  // Writes the samples into `fields`: for each field of layout() a contiguous CPU tensor
  // [number of indices, shape...]. Called only if layout() is not empty. Throws like get_batch().
  virtual void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const;

  // Describes the numbers of a batch, for later use of the model, as an object: {"classes": [...],
  // "columns": {...}}. "classes" are the names of the classes, a list of strings; "vocabulary" is
  // the number of tokens, an integer. All text is UTF-8. Stored with the run. Null: no metadata.
  // Called after fit().
  virtual Json metadata() const { return {}; }

  // Text: the number of bytes of the text that the targets of `batch` (of this dataset) stand for, for
  // the metric bits_per_byte. nullopt: unknown.
  virtual std::optional<int64_t> count_target_bytes(const Batch& /*batch*/) const {
    return std::nullopt;
  }

  // Warnings for the user, one line each, such as the number of records that were skipped.
  virtual std::vector<std::string> warnings() const { return {}; }
};

// Returns a batch in newly allocated memory, filled by dataset.fill().
Batch gather(const Dataset& dataset, const SampleRequest& request);

using DatasetRegistry = Registry<Dataset>;
DatasetRegistry& dataset_registry();

}  // namespace lockstep

// Registers a dataset. Use at namespace scope. `type`: a Dataset with a member type Config and a
// constructor from it.
#define REGISTER_DATASET(name, type, help)                            \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::dataset_registry(), name, help)
