#include "data/dataset.h"

#include <ATen/ATen.h>

#include "data/batch_memory.h"

namespace lockstep {

void Dataset::fill(const SampleRequest&, std::span<const at::Tensor>) const {
  check(false, "a dataset with a layout() must also have fill()");
}

std::vector<double> Dataset::values(const std::string&) const { return {}; }

Batch gather(const Dataset& dataset, const SampleRequest& request) {
  BatchMemory memory(dataset.layout(), {.rows = static_cast<int64_t>(request.indices.size())});
  auto batch = memory.take(request.indices);
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
