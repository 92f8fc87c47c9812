// Arbitrary bytes with a gzip or zstd magic number are either decompressed or a Config error.
#include <zstd.h>

#include <cstdlib>

#include "formats/unpack.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

std::string zstd_of(const std::string& text, int level) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), level));
  return packed;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  std::string table = "a,b\n";
  for (int i = 0; i < 200; ++i) table += std::to_string(i) + "," + std::to_string(i * i % 7) + "\n";
  const auto frame = zstd_of(table, 3);
  return {frame, zstd_of(table, 19), zstd_of("", 1), frame + zstd_of("x", 1),
          std::string("\x1F\x8B\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20)};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  if (!formats::is_compressed({data, size})) return 0;
  try {
    formats::unpacked({data, size}, "input");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
