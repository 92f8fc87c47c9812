// Arbitrary text as a file of access tokens: an error, or tokens with different names and valid
// hashes.

#include <cstdlib>
#include <set>
#include <string>

#include "dashboard/server/access_tokens.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

std::vector<std::string> lockstep::fuzz_seeds() {
  const std::string hash(64, '0');
  return {"ada read " + hash + "\n", "# c\n\nbob\twrite " + hash + "\r\ncy send " + hash,
          "ada read", "\n\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    std::set<std::string> names;
    for (const auto& token : lockstep::dashboard::parse_access_tokens(
             {reinterpret_cast<const char*>(data), size}, "tokens")) {
      if (!names.insert(token.name).second || token.sha256.size() != 64) std::abort();
      if (token.name.find_first_of(" /;=\n") != std::string::npos) std::abort();
    }
  } catch (const lockstep::Error&) {
  }
  return 0;
}
