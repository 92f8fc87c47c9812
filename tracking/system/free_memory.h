// The memory that new processes can use here.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::tracking {

struct FreeMemory {
  uint64_t bytes = 0;                   // on the machine or in the control group, if that is less
  uint64_t total = 0;                   // of the machine
  std::optional<uint64_t> group_limit;  // if the control group has less free memory
};

// Reads /proc and /sys. All 0 where they cannot be read.
FreeMemory free_memory();

}  // namespace lockstep::tracking
