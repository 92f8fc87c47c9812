#include "lockstep/batch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep {

const at::Tensor* Batch::find(const std::string& name) const {
  for (const auto& [field, tensor] : fields)
    if (field == name) return &tensor;
  return nullptr;
}

const at::Tensor& Batch::at(const std::string& name) const {
  if (const auto* tensor = find(name)) return *tensor;
  std::string present;
  for (const auto& [field, tensor] : fields) present += (present.empty() ? "" : ", ") + field;
  throw config_error(
      fmt::format("the model needs the field '{}', but the dataset has {}; choose a model that "
                  "fits the dataset",
                  name, present.empty() ? "no fields" : "only: " + present));
}

Batch Batch::to(const at::Device& device) const {
  Batch moved{.fields = {}, .indices = indices};
  moved.fields.reserve(fields.size());
  // Copies from page-locked memory overlap with queued computation.
  for (const auto& [field, tensor] : fields)
    moved.fields.emplace_back(field, tensor.to(device, /*non_blocking=*/tensor.is_pinned()));
  return moved;
}

}  // namespace lockstep
