#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr size_t kMaxInputBytes = 64u << 10;
// Limits of integer types, as bytes of a binary format.
constexpr std::array<uint64_t, 10> kEdges = {0,
                                             1,
                                             0x7F,
                                             0x80,
                                             0xFFFF,
                                             0x7FFFFFFF,
                                             0x80000000,
                                             0xFFFFFFFF,
                                             0x7FFFFFFFFFFFFFFF,
                                             0xFFFFFFFFFFFFFFFF};
// Tokens with a meaning in YAML and JSON.
constexpr std::array<const char*, 24> kWords = {
    "[",       "]",    "{",   "}",    ":",   ": ",    "- ",   "\n", "\"",    "'",
    "&a ",     "*a",   "!x ", "<<: ", "|\n", "---\n", "null", "-1", "1e999", "18446744073709551616",
    "\\ud800", "\xff", "#",   "\t"};

}  // namespace

Mutator::Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

std::string Mutator::next() {
  auto input = any_seed();
  for (auto changes = 1 + below(8); changes > 0; --changes) change(input);
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
  return input;
}

void Mutator::change(std::string& input) {
  const auto at = below(input.size() + 1);
  const auto rest = input.size() - at;
  switch (below(9)) {
    case 0:
      if (rest) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
      break;
    case 1:
      if (rest) input[at] = static_cast<char>(random_());
      break;
    case 2: input.erase(at, below(std::min<size_t>(rest, 32) + 1)); break;
    case 3: input.insert(at, 1 + below(8), static_cast<char>(random_())); break;
    case 4: input.resize(at); break;
    case 5: input.insert(at, kWords[below(kWords.size())]); break;
    case 6: {  // a limit of an integer type, in either byte order
      auto value = kEdges[below(kEdges.size())];
      const auto width = std::min(size_t{1} << below(4), rest);
      const bool big = below(2) == 1;
      for (size_t i = 0; i < width; ++i, value >>= 8)
        input[at + (big ? width - 1 - i : i)] = static_cast<char>(value);
      break;
    }
    case 7: {  // a piece of this or another seed
      const auto source = below(2) ? input : any_seed();
      const auto begin = below(source.size() + 1);
      input.insert(at, source, begin, 1 + below(64));
      break;
    }
    default: {  // the start of one seed with the end of another
      const auto& other = any_seed();
      input = input.substr(0, at) + other.substr(below(other.size() + 1));
    }
  }
}

}  // namespace lockstep
