// A dataset that stands in for one whose files are not there, so that a run can be planned.
#pragma once

#include "lockstep/dataset.h"

namespace lockstep::trainer {

// `size` copies of Model::example_sample().
class ExampleData final : public Dataset {
 public:
  ExampleData(Batch sample, int64_t size);

  int64_t size() const override { return size_; }
  Batch get_batch(std::span<const int64_t> indices) const override;

  // The fields with the shape of one sample, e.g. "image float32 [3, 224, 224]".
  std::string description() const;

 private:
  Batch sample_;
  int64_t size_;
};

}  // namespace lockstep::trainer
