// Adds the field "reference" to the samples of a dataset: what the initial weights predict for them
// (models/preference.h).
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/dataset.h"

namespace lockstep::trainer {

class ReferenceData final : public Dataset {
 public:
  explicit ReferenceData(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}

  // Sets the values of all samples, float [size(), 2]; 0 until then. Not while samples are loaded.
  void set(const at::Tensor& values);
  const at::Tensor& values() const { return values_; }

  int64_t size() const override { return data_->size(); }
  SampleInfo sample_info() const override { return data_->sample_info(); }
  Batch get_batch(std::span<const int64_t> indices) const override;
  Batch get_samples(const SampleRequest& request) const override;
  std::vector<FieldLayout> layout() const override;
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override;
  Json metadata() const override { return data_->metadata(); }
  std::vector<std::string> warnings() const override { return data_->warnings(); }

 private:
  void fill_reference(std::span<const int64_t> indices, const at::Tensor& reference) const;

  std::shared_ptr<const Dataset> data_;
  at::Tensor values_;  // undefined: not set
};

struct PreparedRun;

// Adds them to the datasets of a run, if its model compares with its initial weights.
void add_references(PreparedRun& run);

// The values of the datasets of a run, in its directory.
std::filesystem::path reference_path(const std::filesystem::path& run_dir);

// Atomic. Throws Environment. `eval`: null: none.
void save_references(const std::filesystem::path& file, const ReferenceData& train,
                     const ReferenceData* eval);
// Throws Environment if they cannot be read, Config if they are of other data.
void load_references(const std::filesystem::path& file, ReferenceData& train, ReferenceData* eval);

}  // namespace lockstep::trainer
