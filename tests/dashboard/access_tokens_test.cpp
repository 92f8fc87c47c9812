#include "dashboard/server/access_tokens.h"

#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "core/system/durable_file.h"
#include "dashboard/server/http_guard.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

const std::string kHash(64, 'a');

std::string problem_of(const std::string& text) {
  try {
    parse_access_tokens(text, "tokens");
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
}

struct Tokens {
  TemporaryDirectory dir;
  std::filesystem::path file = dir / "tokens";
  std::string reader = add_access_token(file, "ada", "read");
  std::string writer = add_access_token(file, "bob", "write");
  std::string sender = add_access_token(file, "node-1", "send");
};

int status_of(const HttpGuard& guard, const std::string& token, Identity* identity = nullptr) {
  Identity who;
  const auto error = guard.authorize({.method = "GET",
                                      .path = "/api/runs",
                                      .host = "localhost",
                                      .authorization = "Bearer " + token},
                                     who);
  if (identity) *identity = who;
  return error ? error->status : 200;
}

int status_of_sender(const HttpGuard& guard, const std::string& token) {
  std::string sender;
  const auto error = guard.authorize_sender(
      {.method = "PUT", .path = "/api/collect/x", .host = "h", .authorization = "Bearer " + token},
      sender);
  return error ? error->status : 200;
}

std::string session(const HttpGuard& guard, const Identity& identity) {
  const auto cookie = guard.new_cookie(identity, {});
  return cookie.substr(0, cookie.find(';'));
}

int status_of_session(const HttpGuard& guard, const std::string& cookie) {
  Identity who;
  const auto error = guard.authorize(
      {.method = "GET", .path = "/api/runs", .host = "localhost", .cookie = cookie}, who);
  return error ? error->status : 200;
}

}  // namespace

TEST_CASE("access tokens: lines of names, roles and hashes") {
  const auto tokens =
      parse_access_tokens("# c\n\n ada  read " + kHash + "\r\nbob\twrite\t" + kHash, "tokens");
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0] == AccessToken{.name = "ada", .role = Role::Read, .sha256 = kHash});
  CHECK(tokens[1].role == Role::Write);
  for (const auto& [text, problem] : std::vector<std::pair<std::string, std::string>>{
           {"ada admin " + kHash, "'admin' is not a role"},
           {"\nada read 12", "tokens:2: the SHA-256"},
           {"ada read " + kHash + " x", "the SHA-256"},
           {"ada", "is not a role"},
           {"../x read " + kHash, "is not a name"},
           {"owner write " + kHash, "is not a name"},
           {"a read " + kHash + "\na send " + kHash, "tokens:2: the name 'a' occurs twice"}}) {
    INFO(text);
    CHECK_THAT(problem_of(text), Catch::Contains(problem));
  }
}

TEST_CASE("access tokens: a file stores hashes only, for its owner only") {
  Tokens tokens;
  CHECK(tokens.reader.size() == 64);
  CHECK(tokens.reader != tokens.writer);
  const auto text = read_file(tokens.file);
  CHECK(text.find(tokens.reader) == std::string::npos);
  struct stat info {};
  REQUIRE(::stat(tokens.file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK_THROWS_WITH(add_access_token(tokens.file, "ada", "write"), Catch::Contains("already"));
  CHECK_THROWS_WITH(add_access_token(tokens.file, "eve", "root"), Catch::Contains("--role root"));
  CHECK_THROWS_WITH(add_access_token(tokens.file, "a b", "read"), Catch::Contains("not a name"));
  CHECK_THROWS_WITH(remove_access_token(tokens.file, "eve"), Catch::Contains("no token 'eve'"));
  CHECK(read_file(tokens.file) == text);
  remove_access_token(tokens.file, "ada");
  CHECK(read_access_tokens(tokens.file).size() == 2);
  ::chmod(tokens.file.c_str(), 0644);
  CHECK_THROWS_WITH(read_access_tokens(tokens.file), Catch::Contains("others can read it"));
}

TEST_CASE("guard: roles of tokens") {
  Tokens tokens;
  const HttpGuard guard(GuardRules{.token = "a long secret token",
                                   .tokens = std::make_shared<AccessTokenFile>(tokens.file),
                                   .cookie_name = "c"});
  Identity who;
  CHECK(status_of(guard, tokens.reader, &who) == 200);
  CHECK((who.name == "ada" && who.role == Role::Read));
  CHECK(status_of(guard, tokens.writer, &who) == 200);
  CHECK((who.name == "bob" && who.role == Role::Write));
  CHECK(status_of(guard, "a long secret token", &who) == 200);
  CHECK((who.name == "token" && who.role == Role::Write));
  CHECK(status_of(guard, tokens.sender) == 403);
  for (const auto& wrong : {std::string(), kHash, tokens.reader.substr(1), std::string("ada")})
    CHECK(status_of(guard, wrong) == 401);
  CHECK(status_of_sender(guard, tokens.sender) == 200);
  CHECK(status_of_sender(guard, "a long secret token") == 200);
  CHECK(status_of_sender(guard, tokens.reader) == 403);
  CHECK(status_of_sender(guard, tokens.writer) == 403);
  CHECK(status_of_sender(guard, "") == 401);
}

TEST_CASE("guard: a session ends with its token, and cannot be changed to another") {
  Tokens tokens;
  const HttpGuard guard(
      GuardRules{.tokens = std::make_shared<AccessTokenFile>(tokens.file), .cookie_name = "c"});
  CHECK_FALSE(guard.ticket().empty());
  const auto ada = session(guard, {.name = "ada"}), bob = session(guard, {.name = "bob"});
  CHECK(status_of_session(guard, ada) == 200);
  CHECK(status_of_session(guard, "c=bob" + ada.substr(ada.rfind('.'))) == 401);
  CHECK(status_of_session(guard, "c=owner" + ada.substr(ada.rfind('.'))) == 401);
  CHECK(status_of_session(guard, session(guard, {.name = "owner"})) == 200);
  CHECK(status_of_session(guard, session(guard, {.name = "token"})) == 401);  // there is none
  CHECK(status_of_session(guard, session(guard, {.name = "node-1"})) == 403);
  CHECK(status_of_session(guard, session(guard, {.name = "eve"})) == 401);
  remove_access_token(tokens.file, "ada");
  CHECK(status_of_session(guard, ada) == 401);
  CHECK(status_of(guard, tokens.reader) == 401);
  add_access_token(tokens.file, "ada", "read");
  CHECK(status_of_session(guard, ada) == 401);
  CHECK(status_of_session(guard, bob) == 200);
}

TEST_CASE(
    "guard: while the file of tokens is not valid, nothing is accepted or rejected for good") {
  Tokens tokens;
  std::vector<std::string> warnings;
  const HttpGuard guard(
      GuardRules{.tokens = std::make_shared<AccessTokenFile>(
                     tokens.file, [&](const std::string& text) { warnings.push_back(text); }),
                 .cookie_name = "c"});
  const auto bob = session(guard, {.name = "bob"});
  const auto statuses = [&] {
    return std::vector{status_of(guard, tokens.writer), status_of_sender(guard, tokens.sender),
                       status_of_session(guard, bob)};
  };
  const auto text = read_file(tokens.file);
  write_file_durably(tokens.file, "not valid\n");
  ::chmod(tokens.file.c_str(), 0600);
  CHECK(statuses() == std::vector{503, 503, 503});
  write_file_durably(tokens.file, text);
  ::chmod(tokens.file.c_str(), 0644);
  CHECK(statuses() == std::vector{503, 503, 503});
  ::chmod(tokens.file.c_str(), 0600);
  CHECK(statuses() == std::vector{200, 200, 200});
  std::filesystem::remove(tokens.file);
  CHECK(statuses() == std::vector{503, 503, 503});
  REQUIRE(warnings.size() == 3);  // once each
  CHECK_THAT(warnings[1], Catch::Contains("others can read it"));
}

TEST_CASE("guard: a running server accepts its tokens while others are added") {
  Tokens tokens;
  const HttpGuard guard(
      GuardRules{.tokens = std::make_shared<AccessTokenFile>(tokens.file), .cookie_name = "c"});
  std::atomic<bool> is_done = false;
  std::jthread changes([&] {
    for (int i = 0; i < 50; ++i) add_access_token(tokens.file, "x" + std::to_string(i), "read");
    is_done = true;
  });
  size_t num_rejected = 0;
  while (!is_done) num_rejected += status_of_sender(guard, tokens.sender) != 200;
  CHECK(num_rejected == 0);
}

TEST_CASE("guard: the cookie of a session over HTTPS is not sent over HTTP") {
  const HttpGuard guard(GuardRules{.token = "a long secret token", .cookie_name = "c"});
  const auto is_secure = [&](const HttpHead& head) {
    return guard.new_cookie({.name = "owner"}, head).ends_with("; Max-Age=2592000; Secure");
  };
  CHECK(is_secure({.origin = "https://runs.example.org"}));
  CHECK(is_secure({.forwarded_proto = "https"}));
  CHECK_FALSE(is_secure({.origin = "http://localhost:8080"}));
}

TEST_CASE("guard: rights are given, never assumed") {
  CHECK(Identity().role == Role::Read);
  CHECK_FALSE(ApiRequest().may_write);
  Identity who;
  const HttpHead head{.method = "GET", .path = "/api/runs", .host = "localhost"};
  CHECK_FALSE(HttpGuard(GuardRules{}).authorize(head, who));
  CHECK(who.role == Role::Write);  // no token is required
}
