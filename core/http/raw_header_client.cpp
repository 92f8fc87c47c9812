#include "core/http/raw_header_client.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "core/system/poll_set.h"

namespace lockstep {
namespace {

constexpr size_t kMaxHeaderBytes = 64 << 10, kMaxUnusedBytes = 256 << 10;
constexpr std::chrono::seconds kMaxProxyConnect{10};

using WaitClock = std::chrono::steady_clock;

bool is_ready(int socket, short events, std::chrono::nanoseconds timeout) {
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  return poll_until({&waiting, 1}, WaitClock::now() + timeout) > 0;
}

// The bytes of a connection, which the library's client has opened and closes.
class HeaderStream final : public httplib::Stream {
 public:
  HeaderStream(int socket, SSL* tls, std::chrono::milliseconds timeout, RawAnswer& answer)
      : socket_(socket), tls_(tls), timeout_(timeout), answer_(answer) {
    answer_ = {};
    // The library's sockets block, and a server could send a record of TLS byte by byte for ever.
    if (const auto flags = ::fcntl(socket, F_GETFL); flags >= 0)
      ::fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  }

  bool is_readable() const override {
    return begin_ < end_ || (tls_ && SSL_pending(tls_) > 0) || is_ready(socket_, POLLIN, timeout_);
  }
  bool is_writable() const override { return is_ready(socket_, POLLOUT, timeout_); }

  ssize_t read(char* out, size_t size) override {
    if (begin_ == end_) {
      auto& header = answer_.header;
      if (header.is_too_long || answer_.unused_bytes > kMaxUnusedBytes) return -1;
      const bool is_direct = header.is_complete && size >= buffer_.size();
      const auto count = is_direct ? receive(out, size) : receive(buffer_.data(), buffer_.size());
      if (count <= 0 || is_direct) return count;
      begin_ = 0;
      end_ = static_cast<size_t>(count);
      answer_.unused_bytes += end_;
      if (!header.is_complete) {
        header.add({buffer_.data(), end_});
        if (header.is_complete) answer_.unused_waited = {};
      }
    }
    const auto count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, count, out);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, size_t size) override {
    for (;;) {
      if (!is_writable()) {
        answer_.has_timed_out = true;
        return -1;
      }
      if (!tls_) {
        const auto count = ::send(socket_, bytes, size, MSG_NOSIGNAL);
        if (count < 0 && may_repeat()) continue;
        return count;
      }
      ERR_clear_error();
      const auto count = SSL_write(tls_, bytes, static_cast<int>(std::min<size_t>(size, INT_MAX)));
      if (count > 0) return count;
      const auto error = SSL_get_error(tls_, count);
      const bool may_continue =
          error == SSL_ERROR_WANT_WRITE || (error == SSL_ERROR_WANT_READ && wait_for_bytes());
      if (!may_continue) return -1;
    }
  }

  // Only the library's server calls these.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  static bool may_repeat() { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

  // False: the time of the header, or of the next bytes of the body, is over.
  bool wait_for_bytes() {
    const auto begin = WaitClock::now();
    const bool is_there = is_ready(socket_, POLLIN, timeout_ - answer_.unused_waited);
    const auto waited = WaitClock::now() - begin;
    answer_.waited += waited;
    answer_.unused_waited += waited;
    answer_.has_timed_out = !is_there || answer_.unused_waited > timeout_;
    return !answer_.has_timed_out;
  }

  // 0: the server has closed the connection; -1: an error, or no bytes within the timeout.
  ssize_t receive(char* out, size_t size) {
    for (;;) {
      if (!(tls_ && SSL_pending(tls_) > 0) && !wait_for_bytes()) return -1;
      if (!tls_) {
        const auto count = ::recv(socket_, out, size, 0);
        if (count < 0 && may_repeat()) continue;
        return count;
      }
      ERR_clear_error();  // what is left by others would be the error of this call
      const auto count = SSL_read(tls_, out, static_cast<int>(std::min<size_t>(size, INT_MAX)));
      if (count > 0) return count;
      // A part of a record, or one without data, e.g. a new session ticket.
      const auto error = SSL_get_error(tls_, count);
      if (error == SSL_ERROR_WANT_READ) continue;
      if (error == SSL_ERROR_WANT_WRITE && is_writable()) continue;
      return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;  // otherwise, the rest may be missing
    }
  }

  const int socket_;
  SSL* const tls_;  // null: not encrypted
  const std::chrono::milliseconds timeout_;
  RawAnswer& answer_;
  std::array<char, 16 << 10> buffer_;
  size_t begin_ = 0, end_ = 0;  // of the bytes in the buffer that were not returned
};

// Connects to a proxy with the library's limits.
class ProxyConnector final : public httplib::ClientImpl {
 public:
  ProxyConnector(const RawProxy& proxy, std::chrono::milliseconds timeout)
      : ClientImpl(proxy.host, proxy.port) {
    set_connection_timeout(std::min(timeout, std::chrono::milliseconds(kMaxProxyConnect)));
    set_tcp_nodelay(true);
  }

  // -1: there is no connection.
  int connect(httplib::Error& error) {
    Socket socket;
    return create_and_connect_socket(socket, error) ? socket.sock : -1;
  }
};

// Base: the library's client, encrypted or not.
template <class Base>
class RawHeaderClient final : public Base {
 public:
  RawHeaderClient(const std::string& host, int port, std::chrono::milliseconds timeout,
                  const std::optional<RawProxy>& proxy, RawAnswer& answer)
      : Base(host, port), timeout_(timeout), proxy_(proxy), answer_(answer) {}

 private:
  static constexpr bool kHasTls = std::is_base_of_v<httplib::SSLClient, Base>;

  bool create_and_connect_socket(typename Base::Socket& socket, httplib::Error& error) override {
    if (kHasTls && !this->is_valid()) {
      error = httplib::Error::SSLConnection;
      return false;
    }
    // That of SSLClient is private, and does nothing more.
    // NOLINTNEXTLINE(bugprone-parent-virtual-call)
    if (!proxy_) return httplib::ClientImpl::create_and_connect_socket(socket, error);
    answer_.is_at_proxy = true;
    socket.sock = ProxyConnector(*proxy_, timeout_).connect(error);
    if (socket.sock < 0) return false;
    if (kHasTls && !open_tunnel(socket.sock)) {
      ::close(std::exchange(socket.sock, -1));
      error = httplib::Error::Connection;
      answer_.is_at_proxy = true;
      return false;
    }
    answer_ = {};
    return true;
  }

  bool open_tunnel(int socket) {
    const bool is_v6 = this->host_.find(':') != std::string::npos;
    const auto server =
        (is_v6 ? "[" + this->host_ + "]" : this->host_) + ":" + std::to_string(this->port_);
    auto request = "CONNECT " + server + " HTTP/1.1\r\nHost: " + server + "\r\n";
    if (!proxy_->authorization.empty())
      request += "Proxy-Authorization: " + proxy_->authorization + "\r\n";
    request += "\r\n";
    HeaderStream stream(socket, nullptr, timeout_, answer_);
    for (size_t sent = 0; sent < request.size();) {
      const auto count = stream.write(request.data() + sent, request.size() - sent);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    char unused;
    while (!answer_.header.is_complete)
      if (stream.read(&unused, 1) <= 0) return false;
    const auto& text = answer_.header.text;
    const auto status = text.substr(std::min(text.find(' '), text.size() - 1) + 1, 3);
    if (status.size() == 3 && status[0] == '2') return true;
    answer_.proxy_status = std::atoi(status.c_str());
    return false;
  }

  bool process_socket(const typename Base::Socket& socket,
                      std::function<bool(httplib::Stream&)> callback) override {
    HeaderStream stream(socket.sock, socket.ssl, timeout_, answer_);
    return callback(stream);
  }

  const std::chrono::milliseconds timeout_;
  const std::optional<RawProxy> proxy_;
  RawAnswer& answer_;
};

}  // namespace

void RawHeader::add(std::string_view bytes) {
  if (is_complete || is_too_long) return;
  text.append(bytes.substr(0, kMaxHeaderBytes - std::min(text.size(), kMaxHeaderBytes)));
  for (;;) {
    const auto end = text.find("\r\n\r\n");
    if (end == text.npos) {
      is_too_long = text.size() >= kMaxHeaderBytes;
      return;
    }
    const auto space = text.find(' ');
    const bool is_interim = space < end && text[space + 1] == '1';
    if (!is_interim) {
      text.resize(end + 2);
      is_complete = true;
      return;
    }
    text.erase(0, end + 4);
  }
}

std::unique_ptr<httplib::ClientImpl> raw_header_client(bool tls, const std::string& host, int port,
                                                       std::chrono::milliseconds timeout,
                                                       const std::optional<RawProxy>& proxy,
                                                       RawAnswer& answer) {
  if (tls)
    return std::make_unique<RawHeaderClient<httplib::SSLClient>>(host, port, timeout, proxy,
                                                                 answer);
  return std::make_unique<RawHeaderClient<httplib::ClientImpl>>(host, port, timeout, proxy, answer);
}

}  // namespace lockstep
