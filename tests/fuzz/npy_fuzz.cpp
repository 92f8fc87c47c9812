// Arbitrary bytes are either a consistent array or a Config error.
#include <cstdlib>

#include "formats/npy_file.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

std::string npy(char version, const std::string& header, const std::string& content) {
  std::string length(version == 1 ? 2 : 4, '\0');
  length[0] = static_cast<char>(header.size());
  return std::string("\x93NUMPY") + version + '\0' + length + header + content;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", std::string(24, 'x')),
      npy(2, "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", "abcde"),
      npy(3, "{'descr': '<i8', 'fortran_order': True, 'shape': (), }", "12345678"),
      npy(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 1), }", "abcdefghijkl"),
      npy(1, "{'descr': '>i2', 'fortran_order': False, 'shape': (0, 7L), }", "")};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto array = formats::parse_npy({data, size}, "input");
    const auto count = formats::num_elements(array.shape);
    if (!count || *count * formats::bytes_of(array.type) != array.bytes.size()) std::abort();
    const auto* begin = array.bytes.data();
    const bool in_file = begin >= data && begin + array.bytes.size() <= data + size;
    if (!in_file && !array.memory) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
