// Proof that both sides of a connection hold the job's token, without sending it: each side answers
// the other's random challenge with an HMAC-SHA256 keyed by the token. Every later frame carries a
// code made with a key of that connection, so that nobody in between can add or change one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::launch {

enum class Side { Coordinator, Node };

// Both challenges of one connection, made by random_hex().
struct Challenges {
  std::string coordinator, node;
};

// What `side` says to prove that it holds the token.
std::string proof_of(Side side, const std::string& token, const Challenges& challenges);
bool is_same_proof(const std::string& ours, const std::string& theirs);

// Makes and checks the codes of one direction of one connection.
class FrameSeal {
 public:
  static constexpr size_t kBytes = 16;
  FrameSeal(Side sender, const std::string& token, const Challenges& challenges);

  // The code and the content.
  std::string seal(std::string_view content);
  // The content. Throws Environment when it was not sealed by the other side, as its next frame.
  std::string open(std::string_view sealed);

 private:
  std::string code_of(std::string_view content);

  std::string key_;
  uint64_t counter_ = 0;
};

}  // namespace lockstep::launch
