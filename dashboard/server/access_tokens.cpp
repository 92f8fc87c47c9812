#include "dashboard/server/access_tokens.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/printable.h"
#include "core/run_id.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "core/system/file_lock.h"
#include "core/trimmed.h"
#include "dashboard/server/http_guard.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::dashboard {
namespace {

constexpr std::string_view kSpaces = " \t\r";
constexpr size_t kMaxTokensFileBytes = 1u << 20, kMaxTokenName = 64;
constexpr auto kTokensLockTimeout = std::chrono::seconds(10);
constexpr const char* kTokensHeader =
    "# Tokens of the dashboard (lockstep ui --tokens): name, role, SHA-256 of the token.\n"
    "# Changed by: lockstep ui token add|remove NAME --tokens THIS_FILE\n";
// Of sessions and requests without a token of the file.
constexpr std::array kReservedNames = {"local", "owner", "token"};

// The next word of `line`, which is shortened.
std::string_view take_word(std::string_view& line) {
  line = trimmed(line, kSpaces);
  const auto word = line.substr(0, line.find_first_of(kSpaces));
  line.remove_prefix(word.size());
  return word;
}

bool parse_role(std::string_view text, Role& role) {
  for (const auto candidate : {Role::Read, Role::Write, Role::Send})
    if (text == role_name(candidate)) {
      role = candidate;
      return true;
    }
  return false;
}

bool is_token_name(const std::string& name) {
  return is_run_id(name) && name.size() <= kMaxTokenName &&
         std::ranges::find(kReservedNames, name) == kReservedNames.end();
}

std::string lines_of(const std::vector<AccessToken>& tokens) {
  std::string text = kTokensHeader;
  for (const auto& token : tokens)
    text += fmt::format("{} {} {}\n", token.name, role_name(token.role), token.sha256);
  return text;
}

// Private from the start: a running server rejects a file that others can read.
void write_access_tokens(const std::filesystem::path& file,
                         const std::vector<AccessToken>& tokens) {
  const auto fresh = file.string() + ".new";  // the caller holds the lock
  const FileDescriptor out(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!out.is_open() || ::fchmod(out.get(), 0600) != 0)
    throw errno_error(fmt::format("cannot create {}", fresh));
  write_all(out.get(), lines_of(tokens), fresh);
  if (::fsync(out.get()) != 0 || ::rename(fresh.c_str(), file.c_str()) != 0)
    throw errno_error(fmt::format("cannot write {}", file.string()));
  sync_directory(file.has_parent_path() ? file.parent_path() : ".");
}

FileLock lock_tokens(const std::filesystem::path& file) {
  return {file.string() + ".lock", FileLock::Kind::Exclusive, kTokensLockTimeout};
}

}  // namespace

const char* role_name(Role role) { return choices(role)[static_cast<size_t>(role)]; }

std::vector<AccessToken> parse_access_tokens(std::string_view text, const std::string& file) {
  std::vector<AccessToken> tokens;
  for (int number = 1; !text.empty(); ++number) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    AccessToken token;
    token.name = take_word(line);
    if (token.name.empty() || token.name.front() == '#') continue;
    const auto role = take_word(line);
    token.sha256 = take_word(line);
    const auto bad = [&](const std::string& why) {
      return config_error(
          fmt::format("{}:{}: {}; expected NAME read|write|send SHA256", file, number, why));
    };
    if (!is_token_name(token.name))
      throw bad(fmt::format("'{}' is not a name", printable(token.name)));
    if (!parse_role(role, token.role))
      throw bad(fmt::format("'{}' is not a role", printable(role)));
    if (!tracking::is_sha256(token.sha256) || !trimmed(line, kSpaces).empty())
      throw bad("the SHA-256 is not valid");
    if (std::ranges::find(tokens, token.name, &AccessToken::name) != tokens.end())
      throw bad(fmt::format("the name '{}' occurs twice", token.name));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<AccessToken> read_access_tokens(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    throw config_error(fmt::format(
        "--tokens {0}: there is no such file; create it with: lockstep ui token add NAME --role "
        "write --tokens {0}",
        file.string()));
  if ((info.st_mode & 077) != 0)
    throw config_error(
        fmt::format("--tokens {0}: others can read it; chmod 600 {0}", file.string()));
  return parse_access_tokens(read_file(file, kMaxTokensFileBytes), file.string());
}

std::string add_access_token(const std::filesystem::path& file, const std::string& name,
                             const std::string& role) {
  AccessToken token{.name = name};
  if (!is_token_name(name))
    throw config_error(fmt::format(
        "'{}' is not a name of a token: expected up to {} letters, digits, '.', '_' or '-', and "
        "neither of local, owner, token",
        printable(name), kMaxTokenName));
  if (!parse_role(role, token.role))
    throw config_error(fmt::format("--role {}: expected read, write or send", printable(role)));
  const auto lock = lock_tokens(file);
  std::error_code ignored;
  auto tokens = std::filesystem::exists(file, ignored) ? read_access_tokens(file)
                                                       : std::vector<AccessToken>();
  if (std::ranges::find(tokens, name, &AccessToken::name) != tokens.end())
    throw config_error(
        fmt::format("{} has a token {} already; remove it first", file.string(), name));
  const auto secret = random_secret();
  token.sha256 = tracking::sha256_of(secret);
  tokens.push_back(token);
  write_access_tokens(file, tokens);
  return secret;
}

void remove_access_token(const std::filesystem::path& file, const std::string& name) {
  const auto lock = lock_tokens(file);
  auto tokens = read_access_tokens(file);
  if (std::erase_if(tokens, [&](const auto& token) { return token.name == name; }) == 0)
    throw config_error(fmt::format("{} has no token '{}'", file.string(), printable(name)));
  write_access_tokens(file, tokens);
}

AccessTokenFile::AccessTokenFile(std::filesystem::path file,
                                 std::function<void(const std::string&)> warn)
    : file_(std::filesystem::absolute(std::move(file))),
      warn_(std::move(warn)),
      read_(version()),
      tokens_(std::make_shared<const std::vector<AccessToken>>(read_access_tokens(file_))) {}

AccessTokenFile::Version AccessTokenFile::version() const {
  struct stat info {};
  if (::stat(file_.c_str(), &info) != 0) return {};
  return {.inode = info.st_ino,
          .size = static_cast<uint64_t>(info.st_size),
          .time_ns = info.st_ctim.tv_sec * int64_t{1'000'000'000} + info.st_ctim.tv_nsec};
}

// A file with a problem is read again each time: the reason may not be the file.
void AccessTokenFile::update() {
  const auto now = version();
  if (now == read_ && problem_.empty()) return;
  read_ = now;
  std::string problem;
  try {
    tokens_ = std::make_shared<const std::vector<AccessToken>>(read_access_tokens(file_));
  } catch (const Error& error) {
    tokens_ = std::make_shared<const std::vector<AccessToken>>();
    problem = error.what();
  }
  if (warn_ && !problem.empty() && problem != problem_) warn_(problem);
  problem_ = problem;
}

std::shared_ptr<const std::vector<AccessToken>> AccessTokenFile::tokens() {
  const MutexLock lock(mutex_);
  update();
  return tokens_;
}

std::string AccessTokenFile::problem() {
  const MutexLock lock(mutex_);
  update();
  return problem_;
}

}  // namespace lockstep::dashboard
