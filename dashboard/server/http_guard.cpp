#include "dashboard/server/http_guard.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>

#include "core/lower_case.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::dashboard {
namespace {

bool is_equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr const char* kSingleToken = "token";  // the name of that of --token-file
constexpr const char* kOwner = "owner";        // the name of the session of the link
constexpr int kSessionSeconds = 30 * 24 * 3600;

ApiError forbidden(const std::string& why) { return {403, "forbidden", why}; }

// Allowed without a token: the front end, which contains no data, and the login.
bool is_public_path(const std::string& path) {
  return !path.starts_with("/api/") || path == "/api/login";
}

std::string origin_host(const std::string& origin) {
  const auto at = origin.find("://");
  return at == std::string::npos ? origin : origin.substr(at + 3);
}

}  // namespace

std::string random_secret() {
  std::array<unsigned char, 32> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw errno_error("cannot get random bytes from the kernel");
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string host_without_port(const std::string& host) {
  std::string name = host;
  if (name.starts_with('[')) {
    const auto close = name.find(']');
    name = close == std::string::npos ? name : name.substr(1, close - 1);
  } else if (std::ranges::count(name, ':') == 1) {
    name.resize(name.find(':'));
  }
  name = lower_case(std::move(name));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_safe_host(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return host == "localhost" || host.ends_with(".localhost") ||
         ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

HttpGuard::HttpGuard(GuardRules rules) : rules_(std::move(rules)), session_(random_secret()) {
  if (requires_token()) ticket_ = random_secret();
}

bool HttpGuard::is_allowed_host(const std::string& host) const {
  const auto name = host_without_port(host);
  return is_safe_host(name) || std::ranges::count(rules_.host_names, name) > 0;
}

std::optional<Identity> HttpGuard::identity_of(const std::string& token) const {
  if (token.empty()) return std::nullopt;
  if (!rules_.token.empty() && is_equal(token, rules_.token))
    return Identity{.name = kSingleToken, .role = Role::Write};
  if (!rules_.tokens) return std::nullopt;
  const auto hash = tracking::sha256_of(token);
  const auto tokens = rules_.tokens->tokens();
  for (const auto& known : *tokens)
    if (is_equal(hash, known.sha256)) return Identity{.name = known.name, .role = known.role};
  return std::nullopt;
}

std::optional<AccessToken> HttpGuard::find_name(const std::string& name) const {
  if (name == kOwner || (name == kSingleToken && !rules_.token.empty()))
    return AccessToken{.name = name, .role = Role::Write};
  if (!rules_.tokens) return std::nullopt;
  const auto tokens = rules_.tokens->tokens();
  const auto found = std::ranges::find(*tokens, name, &AccessToken::name);
  return found == tokens->end() ? std::nullopt : std::optional(*found);
}

// Derived from the hash of the token, so that a session ends with it.
std::string HttpGuard::session_secret(const AccessToken& token) const {
  return tracking::sha256_of(fmt::format("{}\n{}\n{}", session_, token.name, token.sha256));
}

std::optional<Identity> HttpGuard::session_in(const std::string& cookie) const {
  const auto dot = cookie.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto token = find_name(cookie.substr(0, dot));
  if (!token || !is_equal(cookie.substr(dot + 1), session_secret(*token))) return std::nullopt;
  return Identity{.name = token->name, .role = token->role};
}

std::optional<Identity> HttpGuard::session_of(const std::string& cookies) const {
  const auto prefix = rules_.cookie_name + "=";
  size_t at = 0;
  while (at < cookies.size()) {
    auto end = cookies.find(';', at);
    if (end == std::string::npos) end = cookies.size();
    auto cookie = cookies.substr(at, end - at);
    cookie.erase(0, cookie.find_first_not_of(' '));
    if (cookie.starts_with(prefix))
      if (auto identity = session_in(cookie.substr(prefix.size()))) return identity;
    at = end + 1;
  }
  return std::nullopt;
}

std::string HttpGuard::new_cookie(const Identity& identity, const HttpHead& head) const {
  const auto token = find_name(identity.name);
  const bool is_https = head.origin.starts_with("https://") || head.forwarded_proto == "https";
  return fmt::format("{}={}.{}; HttpOnly; SameSite=Lax; Path=/; Max-Age={}{}", rules_.cookie_name,
                     identity.name, token ? session_secret(*token) : "", kSessionSeconds,
                     is_https ? "; Secure" : "");
}

ApiError HttpGuard::unauthorized(const std::string& message) const {
  if (rules_.tokens && !rules_.tokens->problem().empty())
    return {503, "unavailable", "the file of tokens is not valid; the dashboard prints why"};
  return {401, "unauthorized", message};
}

bool HttpGuard::redeem_ticket(const std::string& given) {
  const MutexLock lock(mutex_);
  if (is_ticket_used_ || ticket_.empty() || !is_equal(given, ticket_)) return false;
  is_ticket_used_ = true;
  return true;
}

std::optional<ApiError> HttpGuard::verify_host(const HttpHead& head) const {
  if (head.num_hosts > 1)
    return ApiError(400, "bad_request",
                    fmt::format("expected one Host header, got {}", head.num_hosts));
  if (!is_allowed_host(head.host))
    return forbidden(fmt::format(
        "host '{}' is not allowed: use an address, or start the dashboard with --allow-host NAME",
        printable(host_without_port(head.host))));
  return std::nullopt;
}

std::optional<Identity> HttpGuard::bearer_of(const HttpHead& head) const {
  constexpr std::string_view kBearer = "Bearer ";
  if (!head.authorization.starts_with(kBearer)) return std::nullopt;
  return identity_of(head.authorization.substr(kBearer.size()));
}

std::optional<ApiError> HttpGuard::authorize_sender(const HttpHead& head,
                                                    std::string& sender) const {
  const auto identity = bearer_of(head);
  if (!identity) return unauthorized("the token is missing or not valid");
  if (identity->role != Role::Send && identity->name != kSingleToken)
    return forbidden(fmt::format("the token {} may not send runs", identity->name));
  sender = identity->name;
  return std::nullopt;
}

std::optional<ApiError> HttpGuard::authorize(const HttpHead& head, Identity& who) const {
  who = {};
  if (auto error = verify_host(head)) return error;
  const bool opens_page = head.method == "GET" && !head.path.starts_with("/api/");
  if (head.fetch_site == "cross-site" && !(opens_page && head.fetch_mode == "navigate"))
    return forbidden("cross-site request");
  if (head.method != "GET" && head.method != "HEAD") {
    if (!head.origin.empty() &&
        host_without_port(origin_host(head.origin)) != host_without_port(head.host))
      return forbidden("cross-site write request");
    if (head.fetch_site == "same-site") return forbidden("cross-site write request");
    if (head.marker != "1" || !head.content_type.starts_with("application/json"))
      return forbidden(
          "write requests require the header X-Lockstep-Request: 1 and the content type "
          "application/json");
  }
  if (!requires_token()) who.role = Role::Write;
  if (!requires_token() || is_public_path(head.path)) return std::nullopt;
  auto identity = bearer_of(head);
  if (!identity) identity = session_of(head.cookie);
  if (!identity) return unauthorized("not logged in: log in, or send Authorization: Bearer TOKEN");
  if (identity->role == Role::Send)
    return forbidden(fmt::format("the token {} may only send runs", identity->name));
  who = *identity;
  return std::nullopt;
}

}  // namespace lockstep::dashboard
