// Who may ask the dashboard what: decided from the head of a request alone, before anything is
// looked up. docs/dashboard_api.md, "Security", says the same for people.
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
  size_t num_hosts = 1;  // lines that say Host
};

struct GuardRules {
  std::vector<std::string> host_names;  // lower case, that may stand in Host besides loopback's
  std::string token;                    // empty: none is needed
  std::string cookie_name;              // "lockstep_8080"
};

// Thread: any.
class HttpGuard {
 public:
  explicit HttpGuard(GuardRules rules);

  // Why the request is refused, or nullopt.
  std::optional<ApiError> refusal(const HttpHead& head) const;

  bool is_token(const std::string& given) const;
  // What a cookie has to hold: "lockstep_8080=SECRET; HttpOnly; SameSite=Lax; Path=/".
  std::string new_cookie() const;
  // For a link that works once; empty where no token is needed.
  const std::string& ticket() const { return ticket_; }
  bool take_ticket(const std::string& given);

 private:
  bool knows_host(const std::string& host) const;
  bool has_session(const std::string& cookies) const;

  GuardRules rules_;
  std::string session_, ticket_;
  Mutex mutex_;
  bool used_ GUARDED_BY(mutex_) = false;
};

// "example.org:8080" without its port, lower case; "[::1]:80" is "::1".
std::string host_without_port(const std::string& host);
// Whether `host` is loopback's or an address, which no foreign name can stand for.
bool is_safe_host(const std::string& host);

// 32 random bytes from the kernel, as 64 hexadecimal digits. Throws Environment.
std::string random_secret();

}  // namespace lockstep::dashboard
