#pragma once

#include <optional>

namespace lockstep {

// How a process ended: one of the two.
struct ProcessExit {
  int code = 0;
  std::optional<int> signal;
};

}  // namespace lockstep
