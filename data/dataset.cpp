#include "lockstep/dataset.h"

#include "data/batch_memory.h"

namespace lockstep {

void Dataset::fill(const SampleRequest&, std::span<const at::Tensor>) const {
  throw config_error("a dataset with a layout() must override fill()");
}

Batch Dataset::get_batch(std::span<const int64_t> indices) const {
  return gather(*this, {.indices = indices});
}

Batch gather(const Dataset& dataset, const SampleRequest& request) {
  auto layout = dataset.layout();
  if (layout.empty())
    throw config_error("a dataset must override layout() and fill(), or get_batch()");
  return data::gather(dataset, request, std::move(layout));
}

DatasetRegistry& dataset_registry() {
  static DatasetRegistry registry("dataset");
  return registry;
}

}  // namespace lockstep
