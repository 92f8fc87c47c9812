#include "trainer/prepared/example_data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lockstep::trainer {

ExampleData::ExampleData(Batch sample, int64_t size) : sample_(std::move(sample)), size_(size) {}

Batch ExampleData::get_batch(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{.fields = {}, .indices = at::empty({count}, at::kLong)};
  std::ranges::copy(indices, batch.indices.mutable_data_ptr<int64_t>());
  for (const auto& [name, tensor] : sample_.fields) {
    auto sizes = tensor.sizes().vec();
    sizes.front() = count;
    batch.fields.emplace_back(name, tensor.expand(sizes).contiguous());
  }
  return batch;
}

std::string ExampleData::description() const {
  std::string text;
  for (const auto& [name, tensor] : sample_.fields) {
    const auto shape = tensor.sizes().slice(1);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                        c10::getDtypeNames(tensor.scalar_type()).first);
    if (!shape.empty()) text += fmt::format(" [{}]", fmt::join(shape, ", "));
  }
  return text;
}

}  // namespace lockstep::trainer
