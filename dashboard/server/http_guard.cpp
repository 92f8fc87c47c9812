#include "dashboard/server/http_guard.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::dashboard {
namespace {

bool is_equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr const char* kSingleToken = "token";  // the name of that of --token-file

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
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
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
  if (!rules_.token.empty()) ticket_ = random_secret();
}

bool HttpGuard::is_allowed_host(const std::string& host) const {
  const auto name = host_without_port(host);
  return is_safe_host(name) || std::ranges::count(rules_.host_names, name) > 0;
}

bool HttpGuard::is_token(const std::string& given) const {
  return !rules_.token.empty() && is_equal(given, rules_.token);
}

bool HttpGuard::has_session(const std::string& cookies) const {
  const auto prefix = rules_.cookie_name + "=";
  size_t at = 0;
  while (at < cookies.size()) {
    auto end = cookies.find(';', at);
    if (end == std::string::npos) end = cookies.size();
    auto cookie = cookies.substr(at, end - at);
    cookie.erase(0, cookie.find_first_not_of(' '));
    if (cookie.starts_with(prefix) && is_equal(cookie.substr(prefix.size()), session_)) return true;
    at = end + 1;
  }
  return false;
}

std::string HttpGuard::new_cookie() const {
  return fmt::format("{}={}; HttpOnly; SameSite=Lax; Path=/", rules_.cookie_name, session_);
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

bool HttpGuard::has_token(const HttpHead& head) const {
  constexpr std::string_view kBearer = "Bearer ";
  return head.authorization.starts_with(kBearer) &&
         is_token(head.authorization.substr(kBearer.size()));
}

std::optional<ApiError> HttpGuard::authorize_sender(const HttpHead& head,
                                                    std::string& sender) const {
  if (!has_token(head)) return ApiError(401, "unauthorized", "the token is missing or not valid");
  sender = kSingleToken;
  return std::nullopt;
}

std::optional<ApiError> HttpGuard::authorize(const HttpHead& head) const {
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
  if (rules_.token.empty() || is_public_path(head.path)) return std::nullopt;
  if (has_token(head)) return std::nullopt;
  if (has_session(head.cookie)) return std::nullopt;
  return ApiError(401, "unauthorized",
                  "not logged in: log in, or send Authorization: Bearer TOKEN");
}

}  // namespace lockstep::dashboard
