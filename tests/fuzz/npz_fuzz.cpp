// Arbitrary bytes are either an archive whose members decompress within the limit or a Config
// error.
#include <zip.h>

#include <cstdlib>

#include "formats/npy_file.h"
#include "formats/zip_file.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr size_t kMaxMemberBytes = 1u << 20;

// An archive of two members, stored or deflated.
std::string archive(zip_int32_t method) {
  static const std::string member =
      std::string("\x93NUMPY\1\0\x3b\0", 10) +
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n" + std::string(24, 'x');
  auto* source = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_source_keep(source);
  auto* zip = zip_open_from_source(source, ZIP_TRUNCATE, nullptr);
  for (const auto* name : {"x.npy", "y.npy"}) {
    auto* content = zip_source_buffer(zip, member.data(), member.size(), 0);
    const auto index = zip_file_add(zip, name, content, 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), method, 9);
  }
  zip_close(zip);
  zip_source_open(source);
  std::string bytes(4096, '\0');
  bytes.resize(static_cast<size_t>(zip_source_read(source, bytes.data(), bytes.size())));
  zip_source_close(source);
  zip_source_free(source);
  return bytes;
}

}  // namespace

std::vector<std::string> fuzz_seeds() { return {archive(ZIP_CM_STORE), archive(ZIP_CM_DEFLATE)}; }

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const formats::ZipFile zip({data, size}, "input");
    for (size_t i = 0; i < zip.members().size(); ++i) {
      try {
        uint8_t sum = 0;
        for (const auto byte : zip.stored(i)) sum ^= byte;
        static_cast<void>(sum);
      } catch (const Error& error) {  // compressed
        if (error.kind() != ErrorKind::Config) std::abort();
      }
      const auto content = zip.read(i, kMaxMemberBytes);
      if (content.size() > kMaxMemberBytes) std::abort();
      formats::parse_npy(content, "member");
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
