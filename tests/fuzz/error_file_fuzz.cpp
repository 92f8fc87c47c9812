// Arbitrary bytes as the error file of a worker yield a report or nothing; reading never throws.

#include <cstdlib>
#include <string>

#include "launch/report/error_file.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

std::vector<std::string> lockstep::fuzz_seeds() {
  return {
      R"({"message": {"message": "out of memory", "extraInfo": {"timestamp": "1700000000", "py_callstack": "",
             "kind": "config", "peer": false, "timestamp_us": 1790000000000000}}})",
      R"({"message": "a text of Python's"})",
      R"({"message": {"message": "x", "extraInfo": {"timestamp": "12"}}})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static lockstep::MemoryFile file;
  file.write({reinterpret_cast<const char*>(data), size});
  lockstep::launch::read_error_file(file.path());
  return 0;
}
