#include "core/http/http_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <vector>

#include "core/http/raw_header_client.h"
#include "core/number_text.h"
#include "core/system/file_descriptor.h"
#include "core/trimmed.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kMaxConnectTimeout = std::chrono::milliseconds(10'000);
constexpr double kLeastBytesPerSecond = 1000;

// Writing to a closed connection raises SIGPIPE, which would terminate the process. Blocks the
// signal in this thread and discards it.
class SigpipeBlocker {
 public:
  SigpipeBlocker() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocker() {
    const timespec no_wait{};
    if (!was_pending_)
      while (::sigtimedwait(&pipe_, nullptr, &no_wait) > 0) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocker(const SigpipeBlocker&) = delete;
  SigpipeBlocker& operator=(const SigpipeBlocker&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

// Without a connection to the server: the reason is the proxy.
std::string reason_of(const HttpAddress& proxy, int status) {
  const auto name = "the proxy " + proxy.origin();
  if (status == 0) return "cannot connect to " + name;
  const auto* remedy =
      status == 407 ? ": it needs a user and a password, http://user:password@host" : "";
  return fmt::format("{} refuses to connect to it (status {}){}", name, status, remedy);
}

const char* reason_of(httplib::Error error, bool timed_out) {
  if (timed_out) return "timed out";
  switch (error) {
    case httplib::Error::Connection: return "cannot connect";
    case httplib::Error::ConnectionTimeout: return "timed out while connecting";
    case httplib::Error::Read: return "connection closed before the response was complete";
    case httplib::Error::Write: return "connection closed while sending the request";
    case httplib::Error::SSLConnection: return "TLS handshake failed";
    default: return "request failed";
  }
}

// The fields of a header, after the line of its status.
HttpHeaders fields_of(const std::string& header) {
  HttpHeaders fields;
  auto end = header.find('\n');
  while (end < header.size()) {
    const auto begin = end + 1;
    end = header.find('\n', begin);
    const auto line = std::string_view(header).substr(begin, end - begin);
    const auto colon = line.find(':');
    if (colon != line.npos) {
      std::string name(trimmed(line.substr(0, colon), " \t"));
      for (auto& c : name)
        if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
      fields[name] = trimmed(line.substr(colon + 1), " \t\r");
    }
  }
  return fields;
}

// Empty: the address has neither a user nor a password. The user alone can be empty.
std::string authorization_of(const HttpAddress& address) {
  if (address.user.empty() && address.password.empty()) return {};
  return httplib::make_basic_authentication_header(address.user, address.password).second;
}

RawProxy raw_proxy(const HttpAddress& address) {
  return {address.host, address.port, authorization_of(address)};
}

// Whether a body arrives too slowly.
class SlowBody {
 public:
  explicit SlowBody(std::chrono::milliseconds window) : window_(window) {}

  void begin(std::chrono::nanoseconds waited) {
    begin_ = waited;
    bytes_ = 0;
  }

  // `waited`: for all bytes of the answer.
  bool is_too_slow(size_t bytes, std::chrono::nanoseconds waited) {
    bytes_ += bytes;
    const auto elapsed = waited - begin_;
    if (elapsed < window_) return false;
    const auto least = kLeastBytesPerSecond * std::chrono::duration<double>(elapsed).count();
    const bool result = static_cast<double>(bytes_) < least;
    begin(waited);
    return result;
  }

 private:
  const std::chrono::milliseconds window_;
  std::chrono::nanoseconds begin_{0};
  size_t bytes_ = 0;
};

}  // namespace

int64_t seconds_of_http_date(const std::string& text) {
  struct tm parts {};
  const auto* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return end && *end == '\0' ? std::max<int64_t>(::timegm(&parts), 0) : 0;
}

int64_t seconds_of_retry_after(const std::string& text, int64_t limit) {
  if (const auto seconds = parse_number<int64_t>(text))
    return std::clamp<int64_t>(*seconds, 0, limit);
  const auto time = seconds_of_http_date(text);
  return time == 0 ? 0 : std::clamp<int64_t>(time - ::time(nullptr), 0, limit);
}

struct HttpClient::Connection {
  Connection(const HttpAddress& address, HttpOptions given)
      : options(std::move(given)), prefix(address.path) {
    const auto proxy = options.proxy ? std::optional(raw_proxy(*options.proxy)) : std::nullopt;
    client =
        raw_header_client(address.tls, address.host, address.port, options.timeout, proxy, answer);
    if (proxy && !address.tls) {
      origin = address.origin();
      if (!proxy->authorization.empty())
        options.headers["Proxy-Authorization"] = proxy->authorization;
    }
    client->set_connection_timeout(std::min(options.timeout, kMaxConnectTimeout));
    client->set_read_timeout(options.timeout);
    client->set_write_timeout(options.timeout);
    client->set_keep_alive(true);
    client->set_follow_location(false);
    client->set_url_encode(false);
    client->set_tcp_nodelay(true);
    if (address.tls) {
      client->enable_server_certificate_verification(options.verify_certificate);
      if (!options.ca_file.empty()) client->set_ca_cert_path(options.ca_file);
    }
    for (const auto& [name, value] : options.headers)
      if (std::ranges::any_of(value, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
        throw config_error(
            fmt::format("{}: header {} contains a control character", options.name, name));
    if (auto authorization = authorization_of(address); !authorization.empty())
      options.headers.emplace("Authorization", std::move(authorization));
  }

  httplib::Request request(const char* method, const std::string& path, const std::string& type) {
    httplib::Request request;
    request.method = method;
    request.path = prefix + path;
    if (request.path.empty()) request.path = "/";
    request.path.insert(0, origin);
    for (const auto& [name, value] : options.headers) request.set_header(name, value);
    if (!type.empty()) request.set_header("Content-Type", type);
    return request;
  }

  // `receiver`: null: the response has the body.
  HttpResponse send(httplib::Request& request, const HttpReceiver* receiver = nullptr) {
    HttpResponse result;
    bool too_large = false, too_slow = false, is_enough = false;
    std::optional<Clock::time_point> first_byte_at;
    SlowBody slow(options.timeout);
    client->set_decompress(!receiver);
    if (receiver)
      request.response_handler = [&](const httplib::Response& head) {
        result.status = head.status;
        result.headers = fields_of(answer.header.text);
        slow.begin(answer.waited);
        is_enough = !receiver->begin(result);
        return !is_enough;
      };
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      answer.unused_bytes = 0;
      answer.unused_waited = {};
      if (receiver) {
        too_slow = slow.is_too_slow(size, answer.waited);
        is_enough = !too_slow && !receiver->take({data, size});
        return !too_slow && !is_enough;
      }
      if (!first_byte_at) first_byte_at = Clock::now();
      too_slow = Clock::now() - *first_byte_at > options.timeout;
      too_large = result.body.size() + size > options.max_response_bytes;
      if (!too_large) result.body.append(data, size);
      return !too_large && !too_slow;
    };
    answer = {};
    const auto began = Clock::now();
    httplib::Response response;
    auto error = httplib::Error::Success;
    {
      const SigpipeBlocker blocker;
      client->send(request, response, error);
    }
    if (is_enough) return result;
    if (too_large)
      throw environment_error(fmt::format("{}: the response exceeds {} bytes", options.name,
                                          options.max_response_bytes));
    if (error == httplib::Error::SSLServerVerification || error == httplib::Error::SSLLoadingCerts)
      throw config_error(options.name + ": its certificate is not trusted");
    if (error != httplib::Error::Success) {
      if (answer.header.is_too_long)
        throw environment_error(options.name + ": the header of the response exceeds 64 KiB");
      if (answer.is_at_proxy) {
        const auto text = options.name + ": " + reason_of(*options.proxy, answer.proxy_status);
        // A proxy answers with a status of 500 and above if the server cannot be reached.
        throw answer.proxy_status / 100 == 4 ? config_error(text) : environment_error(text);
      }
      const bool is_slow_handshake =
          error == httplib::Error::SSLConnection && Clock::now() - began >= options.timeout;
      const bool timed_out = too_slow || answer.has_timed_out || is_slow_handshake;
      throw environment_error(fmt::format("{}: {}", options.name, reason_of(error, timed_out)));
    }
    result.status = response.status;
    result.headers = fields_of(answer.header.text);
    return result;
  }

  HttpOptions options;
  std::string prefix;
  std::string origin;  // of requests through a proxy, without TLS; else empty
  RawAnswer answer;    // the last one
  std::unique_ptr<httplib::ClientImpl> client;
};

HttpClient::HttpClient(const HttpAddress& address, HttpOptions options)
    : connection_(std::make_unique<Connection>(address, std::move(options))) {}

HttpClient::~HttpClient() {
  const SigpipeBlocker blocker;  // closing a TLS connection writes
  connection_.reset();
}

HttpResponse HttpClient::get(const std::string& path) {
  auto request = connection_->request("GET", path, "");
  return connection_->send(request);
}

HttpResponse HttpClient::remove(const std::string& path) {
  auto request = connection_->request("DELETE", path, "");
  return connection_->send(request);
}

HttpResponse HttpClient::get(const std::string& path, const HttpHeaders& headers,
                             const HttpReceiver& receiver) {
  auto request = connection_->request("GET", path, "");
  for (const auto& [name, value] : headers) request.set_header(name, value);
  return connection_->send(request, &receiver);
}

HttpResponse HttpClient::post(const std::string& path, std::string body, const std::string& type) {
  auto request = connection_->request("POST", path, type);
  request.body = std::move(body);
  return connection_->send(request);
}

HttpResponse HttpClient::put(const std::string& path, std::string body, const std::string& type) {
  auto request = connection_->request("PUT", path, type);
  request.body = std::move(body);
  return connection_->send(request);
}

HttpResponse HttpClient::put_file(const std::string& path, const std::filesystem::path& file) {
  const FileDescriptor source(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!source.is_open() || ::fstat(source.get(), &status) != 0)
    throw errno_error(fmt::format("cannot open {}", file.string()));
  auto request = connection_->request("PUT", path, "application/octet-stream");
  bool unreadable = false;
  request.content_length_ = static_cast<size_t>(status.st_size);
  if (request.content_length_ > 0)
    request.content_provider_ = [&](size_t offset, size_t length, httplib::DataSink& sink) {
      std::vector<char> piece(std::min<size_t>(length, 256u << 10));
      const auto size =
          ::pread(source.get(), piece.data(), piece.size(), static_cast<off_t>(offset));
      unreadable = size <= 0;
      return !unreadable && sink.write(piece.data(), static_cast<size_t>(size));
    };
  try {
    return connection_->send(request);
  } catch (const Error&) {
    if (unreadable) throw environment_error(fmt::format("cannot read {}", file.string()));
    throw;
  }
}

}  // namespace lockstep
