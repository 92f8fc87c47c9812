#include "lockstep/dataset.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "data/batch_memory.h"

namespace lockstep {

void Dataset::fill(const SampleRequest&, std::span<const at::Tensor>) const {
  check(false, "a dataset with a layout() must override fill()");
}

Batch Dataset::get_batch(std::span<const int64_t> indices) const {
  return gather(*this, {.indices = indices});
}

Batch gather(const Dataset& dataset, const SampleRequest& request) {
  const auto layout = dataset.layout();
  check(!layout.empty(), "a dataset must override layout() or get_batch()");
  const auto count = static_cast<int64_t>(request.indices.size());
  auto batch = data::BatchMemory(layout, {.rows = count}).take(count);
  std::ranges::copy(request.indices, batch.indices.mutable_data_ptr<int64_t>());
  std::vector<at::Tensor> fields;
  for (const auto& [name, tensor] : batch.fields) fields.push_back(tensor);
  dataset.fill(request, fields);
  return batch;
}

DatasetRegistry& dataset_registry() {
  static DatasetRegistry registry("dataset");
  return registry;
}

}  // namespace lockstep
