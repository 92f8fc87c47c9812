// A client for one HTTP or HTTPS server. Redirects are not followed: they could send a token to
// another server.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/http/http_address.h"

namespace lockstep {

// The seconds until a time that a header Retry-After names, as a number of seconds or as a date: 0 to
// `limit`. 0: another text.
int64_t seconds_of_retry_after(const std::string& text, int64_t limit);

// Seconds since 1970 of "Wed, 25 Nov 2026 22:00:00 GMT"; 0: another text.
int64_t seconds_of_http_date(const std::string& text);

using HttpHeaders = std::map<std::string, std::string>;

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;  // as sent, by lower-case name; the last one of a name
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
  // Empty: there is none.
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// Takes the body of a response as it arrives.
struct HttpReceiver {
  // Called first, with status and headers. False: the body is not needed, and not received.
  std::function<bool(const HttpResponse&)> begin;
  // The next bytes; false: no more are needed.
  std::function<bool(std::string_view)> take;
};

struct HttpOptions {
  std::string name;  // of the server, prefix of messages: "MLflow at http://host:5000"
  // Applies separately to sending, to waiting for the response, and to receiving it. Connecting is
  // limited to 10 s.
  std::chrono::milliseconds timeout{30'000};
  bool verify_certificate = true;
  std::string ca_file;  // trusted certificates; empty: those of the system
  size_t max_response_bytes = 16u << 20;
  HttpHeaders headers;  // of every request, for example a token
  // Through which requests are sent: https by CONNECT, so that the proxy sees host and port only.
  std::optional<HttpAddress> proxy;
};

// Keeps its connection open between requests.
//
// Thread: one at a time. Throws Environment if the server cannot be reached, times out or closes
// the connection early, and Config if its certificate is not trusted. A response with any status,
// even 500, is returned. Messages contain no headers, queries or users.
class HttpClient {
 public:
  HttpClient(const HttpAddress& address, HttpOptions options);
  ~HttpClient();

  // `path`: percent-encoded; appended to that of the address.
  HttpResponse get(const std::string& path);
  HttpResponse remove(const std::string& path);  // DELETE
  // With further headers. The body is passed on as it was sent, and the returned response has none.
  // It may take any time while at least 1 KB arrive per second, on average over a timeout; the time
  // that `receiver` takes does not count.
  HttpResponse get(const std::string& path, const HttpHeaders& headers,
                   const HttpReceiver& receiver);
  HttpResponse post(const std::string& path, std::string body,
                    const std::string& type = "application/json");
  HttpResponse put(const std::string& path, std::string body, const std::string& type);
  // Streams the file from the disk.
  HttpResponse put_file(const std::string& path, const std::filesystem::path& file);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace lockstep
