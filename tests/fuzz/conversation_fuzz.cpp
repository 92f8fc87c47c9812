// Arbitrary text is either a conversation or a Config error.
#include <cstdlib>

#include "formats/chat/conversation.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}]})",
          R"({"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Ho"}]})",
          R"({"prompt":"a","completion":"b","text":null})",
          R"({"instruction":"a","input":"b","output":"c"})",
          R"({"prompt":[{"role":"user","content":""}],"completion":[{"role":"assistant"}]})"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto chat = formats::parse_conversation({reinterpret_cast<const char*>(data), size});
    if (chat.is_text()) return 0;
    if (!chat.messages.is_array() || chat.first_answer > chat.messages.size()) std::abort();
    for (const auto& message : chat.messages) formats::is_answer(message);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
