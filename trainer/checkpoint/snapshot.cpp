#include "trainer/checkpoint/snapshot.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

constexpr size_t kCacheLine = 64, kPage = 4096;

// Size of a tensor, rounded up to cache lines.
size_t padded_size(const at::Tensor& tensor) {
  return (tensor.nbytes() + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Uses huge pages if available.
at::Tensor pageable_memory(size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw errno_error(fmt::format("cannot allocate {} bytes for a copy of the state", bytes));
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  auto* const begin = static_cast<volatile char*>(memory);
  for (size_t i = 0; i < bytes; i += kPage) begin[i] = 0;
  return at::from_blob(
      memory, {static_cast<int64_t>(bytes)}, [bytes](void* data) { ::munmap(data, bytes); },
      at::kByte);
}

}  // namespace

void Snapshot::reserve(const NamedTensors& tensors) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += padded_size(tensor);
  if (bytes == 0 || (memory_.defined() && memory_.nbytes() >= bytes)) return;
  memory_.reset();
  const bool on_cpu = std::all_of(tensors.begin(), tensors.end(),
                                  [](const auto& item) { return !item.second.is_cuda(); });
  memory_ = on_cpu ? pageable_memory(bytes)
                   : at::empty({static_cast<int64_t>(bytes)},
                               at::TensorOptions(at::kByte).pinned_memory(true));
}

NamedTensors Snapshot::copy(const NamedTensors& tensors, const FetchTensor& fetch) {
  reserve(tensors);
  NamedTensors copies;
  size_t used = 0;
  for (const auto& [name, listed] : tensors) {
    const auto tensor = listed.is_meta() ? fetch(name) : listed;
    auto* const place = memory_.defined() ? memory_.mutable_data_ptr<uint8_t>() + used : nullptr;
    copies.emplace_back(
        name, at::from_blob(place, tensor.sizes(), at::TensorOptions(tensor.scalar_type())));
    if (tensor.is_cpu() && tensor.is_contiguous() && tensor.nbytes() > 0)
      std::memcpy(place, tensor.const_data_ptr(),
                  tensor.nbytes());  // non-temporal stores, unlike copy_
    else
      copies.back().second.copy_(tensor);
    used += padded_size(tensor);
  }
  return copies;
}

}  // namespace lockstep::trainer
