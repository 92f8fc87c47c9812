// Access control of the dashboard, from the head of a request alone, before it is handled. See
// docs/dashboard_api.md, "Security".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/system/mutex.h"
#include "dashboard/api/api.h"
#include "dashboard/server/access_tokens.h"

namespace lockstep::dashboard {

struct HttpHead {
  std::string method, path;  // decoded path
  std::string host, origin, fetch_site, fetch_mode, content_type, authorization, cookie, marker;
  std::string forwarded_proto;  // of a reverse proxy: "https"
  size_t num_hosts = 1;         // number of Host lines
};

// Who sent a request. `name`: that of a token of the file; "token" for the single token, "owner" for
// the session of the printed link, "local" if no token is required.
struct Identity {
  std::string name = "local";
  Role role = Role::Read;
};

struct GuardRules {
  std::vector<std::string> host_names;      // accepted in Host besides loopback; lower case
  std::string token;                        // with all rights; empty: there is none
  std::shared_ptr<AccessTokenFile> tokens;  // nullptr: there are none
  std::string cookie_name;                  // "lockstep_8080"
};

// Thread: any.
class HttpGuard {
 public:
  explicit HttpGuard(GuardRules rules);

  // The error to respond with, or nullopt if the request is allowed; then sets `who`. What a role
  // permits depends on the request, not only on its head, and is not verified here.
  // While the file of tokens is not valid, the error is 503 instead of 401, so that programs retry.
  std::optional<ApiError> authorize(const HttpHead& head, Identity& who) const;
  // The same for requests of machines that send runs: always requires a token in the header
  // Authorization, which no page of another site has. `sender`: set to the name of the token if the
  // request is allowed.
  std::optional<ApiError> authorize_sender(const HttpHead& head, std::string& sender) const;

  // For a request without a valid token: 401, or 503.
  ApiError unauthorized(const std::string& message) const;

  // nullopt: not a token.
  std::optional<Identity> identity_of(const std::string& token) const;
  // The value of Set-Cookie that starts a session: "lockstep_8080=NAME.SECRET; HttpOnly;
  // SameSite=Lax; Path=/; Max-Age=2592000", with "; Secure" if the browser uses HTTPS. The session
  // ends when the token is removed, and with the server.
  std::string new_cookie(const Identity& identity, const HttpHead& head) const;
  // For a one-time login link; empty if no token is required.
  const std::string& ticket() const { return ticket_; }
  // True once, for the right ticket.
  bool redeem_ticket(const std::string& given);

 private:
  std::optional<ApiError> verify_host(const HttpHead& head) const;
  bool is_allowed_host(const std::string& host) const;
  bool requires_token() const { return !rules_.token.empty() || rules_.tokens; }
  std::optional<Identity> bearer_of(const HttpHead& head) const;
  // nullopt: there is no such name.
  std::optional<AccessToken> find_name(const std::string& name) const;
  std::string session_secret(const AccessToken& token) const;
  std::optional<Identity> session_in(const std::string& cookie) const;
  std::optional<Identity> session_of(const std::string& cookies) const;

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
