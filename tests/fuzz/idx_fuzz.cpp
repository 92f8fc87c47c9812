// Arbitrary bytes are either a consistent IDX array or a Config error.
#include <cstdlib>

#include "formats/idx_file.h"
#include "lockstep/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto array = lockstep::formats::parse_idx({data, size}, "input");
    uint64_t expected = 1;
    for (const auto dim : array.dims) expected *= static_cast<uint64_t>(dim);
    if (array.dims.empty() || expected != array.values.size()) std::abort();
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::Config) std::abort();
  }
  return 0;
}
