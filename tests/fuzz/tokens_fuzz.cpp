// Arbitrary bytes are either a token file with all tokens inside it or a Config error.
#include <cstdlib>

#include "formats/tokens/token_shards.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {formats::token_file_header(formats::ElementType::U16, 3) + "abcdef",
          formats::token_file_header(formats::ElementType::U32, 2) + "abcdefgh", "plain tokens"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  for (const auto type : {formats::ElementType::U16, formats::ElementType::U32}) try {
      const auto layout = formats::parse_token_file({data, size}, type, "input");
      if (layout.tokens == 0 ||
          layout.begin + layout.tokens * formats::bytes_of(layout.type) != size)
        std::abort();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) std::abort();
    }
  return 0;
}
