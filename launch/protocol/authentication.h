// Mutual challenge-response authentication with the job's token, which is never sent: each side
// responds to the other's random challenge with an HMAC-SHA256 keyed by the token. Every later
// frame carries an authentication code with a key of that connection, so frames cannot be forged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::launch {

enum class Side { Coordinator, Node };

// Both challenges of one connection, from random_hex().
struct Challenges {
  std::string coordinator, node;
};

// The response with which `side` proves that it has the token.
std::string proof_of(Side side, const std::string& token, const Challenges& challenges);
bool is_same_proof(const std::string& ours, const std::string& theirs);

// Creates and verifies the authentication codes of one direction of a connection.
class FrameSeal {
 public:
  static constexpr size_t kBytes = 16;
  FrameSeal(Side sender, const std::string& token, const Challenges& challenges);

  // Returns the code followed by the content.
  std::string seal(std::string_view content);
  // Returns the content. Throws Environment unless this is the other side's next frame, unchanged.
  std::string open(std::string_view sealed);

 private:
  std::string code_of(std::string_view content);

  std::string key_;
  uint64_t counter_ = 0;
};

}  // namespace lockstep::launch
