#include "tests/counted_allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t count = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  ++count;
  // As aligned_alloc requires.
  const auto rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(size == 0 ? 1 : size)
                           : std::aligned_alloc(alignment, rounded);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

uint64_t lockstep::num_allocations() { return count; }

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
