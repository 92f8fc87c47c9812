// The limit on open file descriptors of this process.
#pragma once

#include <cstdint>

namespace lockstep {

// Raises the soft limit to `target`, or to the hard limit if that is lower. No effect if the soft
// limit is already higher. Child processes inherit it.
void raise_descriptor_limit(uint64_t target);

}  // namespace lockstep
