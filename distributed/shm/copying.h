// Copies of bytes. No threads, no system calls.
#pragma once

#include <cstddef>
#include <cstring>

namespace lockstep::distributed::shm {

inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Copies data that another core will read. `nontemporal`: uses non-temporal (streaming) stores,
// which bypass this core's caches, where the processor has them. The stores are complete on return:
// the next release store makes them visible. Requires: `to` is 16-byte aligned.
void copy_to_shared(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal);

}  // namespace lockstep::distributed::shm
