// Arbitrary bytes are either a tokenizer that encodes any text to tokens of its vocabulary or a
// Config error.
#include <cstdlib>

#include "data/tokenize/tokenizer.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr std::string_view kText = "In the beginning<|endoftext|> God  created\n\n12 \xC3\xA4ons.";

}  // namespace

std::vector<std::string> fuzz_seeds() {
  std::map<std::string, int64_t> words;
  data::count_words(kText, words);
  const auto learned = data::Tokenizer::learn(words, 270, 1, {"<|endoftext|>"}).to_json();
  auto split = learned;
  const std::string whole = "\"use_regex\": true";
  split.replace(split.find(whole), whole.size(), "\"use_regex\": false");
  return {learned, split};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    data::Tokenizer tokenizer({reinterpret_cast<const char*>(data), size}, "input");
    std::vector<int32_t> tokens;
    tokenizer.encode(kText, tokens);
    for (const auto token : tokens)
      if (token < 0 || static_cast<size_t>(token) >= tokenizer.vocabulary_size()) std::abort();
    tokenizer.decode(tokens);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
