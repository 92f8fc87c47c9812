// Requests to one HTTP or HTTPS server. Redirects are not followed: an answer may not send a token
// elsewhere.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::tracking {

struct HttpAddress {
  bool tls = false;
  std::string host;
  int port = 80;
  std::string path;  // in front of every request's, without a "/" at its end; may have a query
  std::string user, password;  // "user:password@" of the URL, decoded

  // "https://host:8443", without path, user and password: fit for messages.
  std::string origin() const;
};

// `url`: http[s]://[user[:password]@]host[:port][/path]. Throws Config, whose message names the URL
// as `what` only: it may hold secrets.
HttpAddress parse_http_address(const std::string& url, const std::string& what);

// One segment, or with its "/" a path, with everything else than letters, digits and "-._~" as %XX.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);

struct HttpResponse {
  int status = 0;
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
};

struct HttpOptions {
  std::string name;  // of the server, as messages begin: "MLflow at http://host:5000"
  // Each for: to send on, until the answer begins, and for the answer. A connection has at most 10
  // s.
  std::chrono::milliseconds timeout{30'000};
  bool verify_certificate = true;
  std::string ca_file;  // certificates to trust; empty: those of the system
  size_t max_answer_bytes = 16u << 20;
  std::map<std::string, std::string> headers;  // of every request; the place for a token
};

// Keeps its connection open between requests.
//
// Thread: one at a time. Errors: a server that cannot be reached, does not answer in time or breaks
// off is an Environment error; a certificate that is not trusted is a Config error. What the server
// says with a status of its own, be it 500, is an answer. No message shows a header, a path's query
// or a user.
class HttpClient {
 public:
  HttpClient(const HttpAddress& address, HttpOptions options);
  ~HttpClient();

  // `path`: behind that of the address, percent-encoded.
  HttpResponse get(const std::string& path);
  HttpResponse post(const std::string& path, std::string body,
                    const std::string& type = "application/json");
  HttpResponse put(const std::string& path, std::string body, const std::string& type);
  // Streams the file from the disk.
  HttpResponse put_file(const std::string& path, const std::filesystem::path& file);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace lockstep::tracking
