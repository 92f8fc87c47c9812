// Arbitrary bytes are either a state.json with plain file names or a Config error.
#include <cstdlib>

#include "formats/table/saved_dataset.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {R"({"_data_files": [{"filename": "data-00000-of-00002.arrow"},
              {"filename": "data-00001-of-00002.arrow"}], "_fingerprint": "a", "_split": null})",
          R"({"_data_files": [{"filename": "../b"}], "_indices_data_files": null})"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto files = formats::parse_dataset_state({data, data + size}, "input");
    if (files.empty()) std::abort();
    for (const auto& file : files)
      if (file.empty() || file == ".." || file.find('/') != std::string::npos) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
