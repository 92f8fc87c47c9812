// Arbitrary bytes are either an index with plain file names, which survives a round trip, or an
// Environment error.
#include <cstdlib>

#include "formats/safetensors_index.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {formats::make_safetensors_index({{"fc.weight", "model-00001-of-00002.safetensors"},
                                           {"fc.bias", "model-00002-of-00002.safetensors"}},
                                          48),
          formats::make_safetensors_index({}, 0), R"({"weight_map": {"a": "../b"}})"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto files = formats::parse_safetensors_index({data, data + size}, "input");
    for (const auto& [tensor, file] : files)
      if (file.empty() || file.front() == '.' || file.find('/') != std::string::npos) std::abort();
    if (formats::parse_safetensors_index(formats::make_safetensors_index(files, 0), "again") !=
        files)
      std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Environment) std::abort();
  }
  return 0;
}
