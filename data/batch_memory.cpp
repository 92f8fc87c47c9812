#include "data/batch_memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>

namespace lockstep::data {
namespace {

bool is_unused(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

bool is_unused(const Batch& batch) {
  return is_unused(batch.indices) && std::ranges::all_of(batch.fields, [](const auto& field) {
           return is_unused(field.second);
         });
}

// The first `count` rows of `memory`, always as a new tensor, so that a caller can change its shape.
// Like narrow(), which takes longer than filling a small batch.
at::Tensor first_rows(const at::Tensor& memory, int64_t count) {
  auto rows = at::detail::make_tensor<at::TensorImpl>(
      at::TensorImpl::VIEW, at::Storage(memory.storage()), memory.key_set(), memory.dtype());
  at::DimVector shape(memory.sizes());
  shape[0] = count;
  rows.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return rows;
}

Batch first_rows(const Batch& memory, int64_t count) {
  Batch batch{.fields = {}, .indices = first_rows(memory.indices, count)};
  batch.fields.reserve(memory.fields.size());
  for (const auto& [name, tensor] : memory.fields)
    batch.fields.emplace_back(name, first_rows(tensor, count));
  return batch;
}

}  // namespace

BatchMemory::BatchMemory(std::vector<FieldLayout> layout, BatchMemoryOptions options)
    : layout_(std::move(layout)), options_(options) {}

Batch BatchMemory::allocate() const {
  Batch batch{.fields = {}, .indices = at::empty({options_.rows}, at::kLong)};
  for (const auto& field : layout_) {
    std::vector<int64_t> shape = {options_.rows};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    batch.fields.emplace_back(
        field.name,
        at::empty(shape, at::TensorOptions(field.type).pinned_memory(options_.page_locked)));
  }
  return batch;
}

Batch BatchMemory::take(int64_t count) {
  check(count <= options_.rows, "the batch is larger than its memory");
  const auto free =
      std::ranges::find_if(kept_, [](const Batch& batch) { return is_unused(batch); });
  // Reference counts are read relaxed; this orders the last user's accesses before reuse.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (free != kept_.end()) {
    auto batch = first_rows(*free, count);
    std::rotate(free, free + 1, kept_.end());
    return batch;
  }
  const auto memory = allocate();
  auto batch = first_rows(memory, count);
  if (options_.kept == 0) return batch;
  // The oldest batch is probably held permanently by the caller: stop tracking it.
  if (kept_.size() == options_.kept) kept_.erase(kept_.begin());
  kept_.push_back(memory);
  return batch;
}

Batch gather(const Dataset& dataset, const SampleRequest& request,
             std::vector<FieldLayout> layout) {
  const auto count = static_cast<int64_t>(request.indices.size());
  auto batch = BatchMemory(std::move(layout), {.rows = count}).take(count);
  std::ranges::copy(request.indices, batch.indices.mutable_data_ptr<int64_t>());
  std::vector<at::Tensor> fields;
  for (const auto& [name, tensor] : batch.fields) fields.push_back(tensor);
  dataset.fill(request, fields);
  return batch;
}

}  // namespace lockstep::data
