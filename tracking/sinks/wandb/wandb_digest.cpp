#include "tracking/sinks/wandb/wandb_digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <memory>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

// Fails only if OpenSSL lacks the digest or memory is exhausted; callers cannot handle either.
void check_md5(int result) { check(result == 1, "OpenSSL cannot compute MD5"); }

}  // namespace

std::string md5_base64(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  check_md5(context ? EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) : 0);
  std::string buffer(1 << 16, '\0');
  while (input.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         input.gcount() > 0)
    check_md5(EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(input.gcount())));
  if (!input.eof()) throw environment_error(fmt::format("cannot read {}", file.string()));
  std::array<unsigned char, 16> sum{};
  check_md5(EVP_DigestFinal_ex(context.get(), sum.data(), nullptr));
  std::array<unsigned char, 25> text{};  // 4 characters per 3 bytes, and a zero
  const int size = EVP_EncodeBlock(text.data(), sum.data(), sum.size());
  return {text.begin(), text.begin() + size};
}

}  // namespace lockstep::tracking
