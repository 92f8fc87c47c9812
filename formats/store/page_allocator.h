// Memory for large buffers, in separate pages: the kernel gets it back at once, also when malloc keeps
// what is freed (core/system/malloc_tuning.h). No LibTorch.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace lockstep::formats {

// Elements are not initialized: zeros in new memory, else what was there before.
template <class T>
struct PageAllocator {
  using value_type = T;

  PageAllocator() = default;
  template <class U>
  explicit PageAllocator(const PageAllocator<U>&) {}

  T* allocate(size_t count) {
    void* begin = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    return static_cast<T*>(begin);
  }
  void deallocate(T* begin, size_t count) noexcept { ::munmap(begin, count * sizeof(T)); }
  void construct(T*) noexcept {}
  bool operator==(const PageAllocator&) const = default;
};

using PageBytes = std::vector<uint8_t, PageAllocator<uint8_t>>;

}  // namespace lockstep::formats
