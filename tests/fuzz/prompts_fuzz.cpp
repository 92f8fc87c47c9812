// Arbitrary bytes are either prompts, of valid UTF-8 and token ids, or a Config error.
#include "trainer/generation/prompts.h"

#include <cstdlib>

#include "core/printable.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {"one line\r\nanother \xC3\xA4\n\n",
          "{\"prompt\": \"a\\u00e4b\"}\n{\"tokens\": [1, 22, 333]}\n",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  for (const bool is_json : {false, true}) try {
      const std::string_view text(reinterpret_cast<const char*>(data), size);
      for (const auto& prompt : trainer::parse_prompts(text, is_json, "input")) {
        if (find_invalid_utf8(prompt.text) != std::string::npos) std::abort();
        for (const auto token : prompt.tokens.value_or(std::vector<int64_t>()))
          if (token < 0) std::abort();
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) std::abort();
    }
  return 0;
}
