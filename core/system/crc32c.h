// CRC-32C (Castagnoli), as in RFC 3720 appendix B.4: the checksum of event logs and checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// The checksum of `size` bytes that follow others whose checksum is `previous` (0 for none).
uint32_t crc32c(const void* data, size_t size, uint32_t previous = 0);

}  // namespace lockstep
