#include "core/http/raw_header_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kMaxHeaderBytes = 64 << 10;

bool is_ready(int socket, short events, std::chrono::milliseconds timeout) {
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  int ready = 0;
  do ready = ::poll(&waiting, 1, static_cast<int>(timeout.count()));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// The bytes of a connection, which the library's client has opened and closes.
class HeaderStream final : public httplib::Stream {
 public:
  HeaderStream(int socket, SSL* tls, std::chrono::milliseconds timeout, RawHeader& header)
      : socket_(socket), tls_(tls), timeout_(timeout), header_(header) {
    header_ = {};
  }

  bool is_readable() const override {
    return begin_ < end_ || (tls_ && SSL_pending(tls_) > 0) || is_ready(socket_, POLLIN, timeout_);
  }
  bool is_writable() const override { return is_ready(socket_, POLLOUT, timeout_); }

  ssize_t read(char* out, size_t size) override {
    if (begin_ == end_) {
      if (header_.is_complete && size >= buffer_.size()) return receive(out, size);
      const auto count = receive(buffer_.data(), buffer_.size());
      if (count <= 0) return count;
      begin_ = 0;
      end_ = static_cast<size_t>(count);
      header_.add({buffer_.data(), end_});
    }
    const auto count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, count, out);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, size_t size) override {
    if (!is_writable()) return -1;
    if (!tls_) return ::send(socket_, bytes, size, MSG_NOSIGNAL);
    return SSL_write(tls_, bytes, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  }

  // Only the library's server calls these.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  // 0: the server has closed the connection; -1: an error, or no bytes within the timeout.
  ssize_t receive(char* out, size_t size) {
    for (;;) {
      if (!(tls_ && SSL_pending(tls_) > 0) && !is_ready(socket_, POLLIN, timeout_)) return -1;
      if (!tls_) {
        const auto count = ::recv(socket_, out, size, 0);
        if (count < 0 && errno == EINTR) continue;
        return count;
      }
      ERR_clear_error();  // what is left by others would be the error of this call
      const auto count = SSL_read(tls_, out, static_cast<int>(std::min<size_t>(size, INT_MAX)));
      if (count > 0) return count;
      // A record without data, e.g. a new session ticket.
      if (const auto error = SSL_get_error(tls_, count); error == SSL_ERROR_WANT_READ) continue;
      return count < 0 ? -1 : 0;
    }
  }

  const int socket_;
  SSL* const tls_;  // null: not encrypted
  const std::chrono::milliseconds timeout_;
  RawHeader& header_;
  std::array<char, 16 << 10> buffer_;
  size_t begin_ = 0, end_ = 0;  // of the bytes in the buffer that were not returned
};

// Base: the library's client, encrypted or not.
template <class Base>
class RawHeaderClient final : public Base {
 public:
  RawHeaderClient(const std::string& host, int port, std::chrono::milliseconds timeout,
                  RawHeader& header)
      : Base(host, port), timeout_(timeout), header_(header) {}

 private:
  bool process_socket(const typename Base::Socket& socket,
                      std::function<bool(httplib::Stream&)> callback) override {
    HeaderStream stream(socket.sock, socket.ssl, timeout_, header_);
    return callback(stream);
  }

  const std::chrono::milliseconds timeout_;
  RawHeader& header_;
};

}  // namespace

void RawHeader::add(std::string_view bytes) {
  if (is_complete) return;
  text.append(bytes.substr(0, kMaxHeaderBytes - std::min(text.size(), kMaxHeaderBytes)));
  for (;;) {
    const auto end = text.find("\r\n\r\n");
    if (end == text.npos) {
      is_complete = text.size() >= kMaxHeaderBytes;
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
                                                       RawHeader& header) {
  if (tls)
    return std::make_unique<RawHeaderClient<httplib::SSLClient>>(host, port, timeout, header);
  return std::make_unique<RawHeaderClient<httplib::ClientImpl>>(host, port, timeout, header);
}

}  // namespace lockstep
