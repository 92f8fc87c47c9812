// Access control of the dashboard, from the head of a request alone, before it is handled. See
// docs/dashboard_api.md, "Security".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/system/mutex.h"
#include "dashboard/api/api.h"

namespace lockstep::dashboard {

struct HttpHead {
  std::string method, path;  // decoded path
  std::string host, origin, fetch_site, fetch_mode, content_type, authorization, cookie, marker;
  size_t num_hosts = 1;  // number of Host lines
};

struct GuardRules {
  std::vector<std::string> host_names;  // accepted in Host besides loopback; lower case
  std::string token;                    // empty: no authentication
  std::string cookie_name;              // "lockstep_8080"
};

// Thread: any.
class HttpGuard {
 public:
  explicit HttpGuard(GuardRules rules);

  // The error to respond with, or nullopt if the request is allowed.
  std::optional<ApiError> authorize(const HttpHead& head) const;
  // The same for requests of machines that send runs: always requires a token in the header
  // Authorization, which no page of another site has. `sender`: set to the name of the token if the
  // request is allowed.
  std::optional<ApiError> authorize_sender(const HttpHead& head, std::string& sender) const;

  bool is_token(const std::string& given) const;
  // The value of Set-Cookie that starts a session: "lockstep_8080=SECRET; HttpOnly; SameSite=Lax;
  // Path=/".
  std::string new_cookie() const;
  // For a one-time login link; empty if no token is required.
  const std::string& ticket() const { return ticket_; }
  // True once, for the right ticket.
  bool redeem_ticket(const std::string& given);

 private:
  std::optional<ApiError> verify_host(const HttpHead& head) const;
  bool is_allowed_host(const std::string& host) const;
  bool has_token(const HttpHead& head) const;
  bool has_session(const std::string& cookies) const;

  GuardRules rules_;
  std::string session_, ticket_;
  Mutex mutex_;
  bool is_ticket_used_ GUARDED_BY(mutex_) = false;
};

// "example.org:8080" without its port, lower case; "[::1]:80" is "::1".
std::string host_without_port(const std::string& host);
// Whether `host` is a loopback name or an address; DNS rebinding requires a foreign name.
bool is_safe_host(const std::string& host);

// 32 random bytes from the kernel as 64 hexadecimal digits. Throws Environment.
std::string random_secret();

}  // namespace lockstep::dashboard
