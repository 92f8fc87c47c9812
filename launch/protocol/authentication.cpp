#include "launch/protocol/authentication.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

std::string hmac_sha256(const std::string& key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (!::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(),
              code.data(), &size))
    throw environment_error("HMAC-SHA256 is not available");
  return {reinterpret_cast<const char*>(code.data()), size};
}

const char* side_name(Side side) { return side == Side::Coordinator ? "coordinator" : "node"; }

std::string derive(const char* purpose, Side side, const std::string& token,
                   const Challenges& challenges) {
  return hmac_sha256(token, fmt::format("lockstep rendezvous 1\n{}\n{}\n{}\n{}", purpose,
                                        side_name(side), challenges.coordinator, challenges.node));
}

}  // namespace

std::string proof_of(Side side, const std::string& token, const Challenges& challenges) {
  std::string text;
  for (const unsigned char byte : derive("proof", side, token, challenges))
    text += fmt::format("{:02x}", byte);
  return text;
}

bool is_same_proof(const std::string& ours, const std::string& theirs) {
  return ours.size() == theirs.size() &&
         ::CRYPTO_memcmp(ours.data(), theirs.data(), ours.size()) == 0;
}

FrameSeal::FrameSeal(Side sender, const std::string& token, const Challenges& challenges)
    : key_(derive("frames", sender, token, challenges)) {}

std::string FrameSeal::code_of(std::string_view content) {
  return hmac_sha256(key_, fmt::format("{}\n{}", counter_++, content)).substr(0, kBytes);
}

std::string FrameSeal::seal(std::string_view content) { return code_of(content).append(content); }

std::string FrameSeal::open(std::string_view sealed) {
  if (sealed.size() >= kBytes) {
    const auto content = sealed.substr(kBytes);
    if (is_same_proof(code_of(content), std::string(sealed.substr(0, kBytes))))
      return std::string(content);
  }
  throw environment_error("message authentication failed");
}

}  // namespace lockstep::launch
