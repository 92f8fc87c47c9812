// CRC-32C (Castagnoli), as in RFC 3720 appendix B.4; the checksum of event logs and checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// Extends the checksum `previous` (0 at the start of the data) by `size` bytes.
uint32_t crc32c(const void* data, size_t size, uint32_t previous = 0);

}  // namespace lockstep
