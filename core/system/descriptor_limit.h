// How many files and sockets this process may have open.
#pragma once

#include <cstdint>

namespace lockstep {

// Raises the soft limit to `wanted`, or as far as the hard one allows. No effect where it is higher
// already. Processes that are started afterwards inherit it.
void raise_descriptor_limit(uint64_t wanted);

}  // namespace lockstep
