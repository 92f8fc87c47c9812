// Copies of bytes. No threads, no system calls.
#pragma once

#include <cstddef>
#include <cstring>

namespace lockstep::distributed::shm {

inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// For what another core is going to read. `nontemporal`: to memory, past the caches of this core,
// out of which the other one would get it line by line; only where the processor can. Written when
// it returns: the next release store makes it visible. Requires: `to` at a multiple of 16.
void copy_for_others(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal);

}  // namespace lockstep::distributed::shm
