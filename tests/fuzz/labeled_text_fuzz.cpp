// Arbitrary bytes are either rows with a text and a label or a Config error.
#include <cstdlib>

#include "formats/table/labeled_text.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {R"({"text": "good", "label": "yes"}
{"text": "bad", "label": 3})",
          R"({"text": ["a", "b"], "label": ["x", "y"]})", R"({"text": "c", "label": [0.5, 1]})",
          R"({"text": "d", "label": true, "more": null})"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& row : formats::parse_labeled_jsonl(text, {}, "input")) {
      if (!row.names.empty() && !row.numbers.empty()) std::abort();
      if (!row.is_words && row.words.size() != 1) std::abort();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
