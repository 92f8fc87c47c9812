// A batch of samples, passed from a dataset to a model: named tensors with the same first
// dimension.
//
// Example:
//   at::Tensor mean_image(const lockstep::Batch& batch) {
//     return batch.at("image").mean(0);  // [C, H, W] of [B, C, H, W]
//   }
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct Batch {
  // Field name to tensor; dimension 0 is the sample. Images: float32 [B, C, H, W]; classes: int64
  // [B].
  std::vector<std::pair<std::string, at::Tensor>> fields;
  // Global indices of the samples in their dataset, int64 [B], always on the CPU.
  at::Tensor indices;

  int64_t size() const { return indices.defined() ? indices.size(0) : 0; }

  // The field called `name`, or nullptr.
  const at::Tensor* find(const std::string& name) const;
  // The field called `name`. Throws Config, listing the fields of the batch, when there is none:
  // the model does not match the data.
  const at::Tensor& at(const std::string& name) const;

  // A copy of the batch with every field on `device`; `indices` stays on the CPU.
  Batch to(const at::Device& device) const;
};

}  // namespace lockstep
