// Arbitrary bytes are either a file with tensors inside it, in order and without overlap, or an
// Environment error.
#include <cstdlib>

#include "formats/safetensors_header.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

void verify(const std::vector<formats::TensorEntry>& entries, size_t size) {
  size_t end = 0;
  for (const auto& entry : entries) {
    size_t bytes = formats::dtype_bytes(entry.dtype);
    for (const auto extent : entry.shape) {
      if (extent < 0) std::abort();
      bytes *= static_cast<size_t>(extent);
    }
    if (entry.begin < end || entry.end > size || entry.end - entry.begin != bytes) std::abort();
    end = entry.end;
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::vector<formats::TensorEntry> entries = {{"fc.weight", "F32", {2, 3}, 0, 24},
                                                     {"fc.bias", "I64", {}, 24, 32}};
  return {make_safetensors_header(entries) + std::string(32, '\1'),
          formats::make_safetensors_header({}),
          formats::make_safetensors_header({{"empty", "BF16", {0, 7}, 0, 0}})};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    lockstep::verify(lockstep::formats::parse_safetensors({data, size}, "input"), size);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::Environment) std::abort();
  }
  return 0;
}
