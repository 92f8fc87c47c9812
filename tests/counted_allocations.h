// Counts allocations with `new` per thread: including the tensor objects of LibTorch, but not their
// data. Active in programs that link counted_allocations.cpp.
#pragma once

#include <cstdint>

namespace lockstep {

// The allocations of the calling thread since it started.
uint64_t num_allocations();

// The number of allocations in `body`.
template <class Body>
uint64_t allocations_of(const Body& body) {
  const auto before = num_allocations();
  body();
  return num_allocations() - before;
}

}  // namespace lockstep
