#include "launch/protocol/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "core/trimmed.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMinTokenLength = 16;
constexpr size_t kMaxTokenFileBytes = 4096;

std::string verified(std::string_view text, const std::string& where) {
  const std::string token(trimmed(text, " \t\r\n"));
  if (token.size() < kMinTokenLength)
    throw config_error(
        fmt::format("{}: expected a token of at least {} characters; create one with 'lockstep "
                    "launch --new-token FILE'",
                    where, kMinTokenLength));
  return token;
}

}  // namespace

std::string read_token(const std::optional<std::filesystem::path>& file) {
  if (!file) {
    const auto token = environment("LOCKSTEP_RDZV_TOKEN");
    return token ? verified(*token, "environment variable LOCKSTEP_RDZV_TOKEN") : "";
  }
  const auto where = fmt::format("--rdzv-token-file {}", file->string());
  struct stat status {};
  if (::stat(file->c_str(), &status) != 0)
    throw config_error(
        fmt::format("{}: there is no such file; create it with 'lockstep launch --new-token {}'",
                    where, file->string()));
  if ((status.st_mode & 077) != 0)
    throw config_error(
        fmt::format("{}: readable by other users; run: chmod 600 {}", where, file->string()));
  return verified(read_file(*file, kMaxTokenFileBytes), where);
}

void make_token_file(const std::filesystem::path& file) {
  const auto text = random_hex(32) + "\n";
  const FileDescriptor fd(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open() && errno == EEXIST)
    throw config_error(fmt::format("--new-token {}: the file already exists", file.string()));
  if (!fd.is_open()) throw errno_error(fmt::format("cannot create {}", file.string()));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0)
    throw errno_error(fmt::format("cannot write {}", file.string()));
}

std::string random_hex(int num_bytes) {
  std::string text;
  for (int i = 0; i < num_bytes; ++i) {
    unsigned char byte = 0;
    if (::RAND_bytes(&byte, 1) != 1) throw environment_error("cannot generate random numbers");
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

}  // namespace lockstep::launch
