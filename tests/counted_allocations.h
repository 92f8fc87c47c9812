// How often a thread asked for memory with `new`: tensors of LibTorch, which are objects of their
// own each time, included; the bytes behind them not. Counted in programs that link
// counted_allocations.cpp.
#pragma once

#include <cstdint>

namespace lockstep {

// By the calling thread, since it began.
uint64_t num_allocations();

// How many of them `body` makes.
template <class Body>
uint64_t allocations_of(const Body& body) {
  const auto before = num_allocations();
  body();
  return num_allocations() - before;
}

}  // namespace lockstep
