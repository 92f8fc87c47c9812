// Human-readable sizes.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// "512 B", "1.5 KB", "2.0 GB", in powers of 1000.
std::string size_text(uint64_t bytes);

}  // namespace lockstep
