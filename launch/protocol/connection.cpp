#include "launch/protocol/connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kPieceBytes = 64u << 10;
constexpr int kMaxPieces = 16;                  // per call, for fairness and bounded memory
constexpr size_t kMaxPendingBytes = 16u << 20;  // the other end does not read

}  // namespace

Connection::Connection(FileDescriptor fd) : fd_(std::move(fd)) {
  const int on = 1;  // messages are small and latency matters; no effect on a socket pair
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

pollfd Connection::poll_request() const {
  const short events = pending_.empty() ? POLLIN : POLLIN | POLLOUT;
  return {.fd = fd_.get(), .events = events, .revents = 0};
}

void Connection::transfer() {
  if (is_open() && !pending_.empty() && !write_some()) return;
  if (is_open()) read_some();
}

bool Connection::write_some() {
  while (!pending_.empty()) {
    const auto written = ::send(fd_.get(), pending_.data(), pending_.size(), MSG_NOSIGNAL);
    if (written >= 0) {
      pending_.erase(0, static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == ENOTCONN) {
      return true;
    } else if (errno != EINTR) {
      // Messages that the other end sent before it disconnected are still read.
      const auto reason = fmt::format("the connection failed: {}", std::strerror(errno));
      pending_.clear();
      read_some();
      if (is_open()) close(reason);
      return false;
    }
  }
  return true;
}

void Connection::read_some() {
  std::array<char, kPieceBytes> piece;
  for (int i = 0; i < kMaxPieces; ++i) {
    const auto got = ::recv(fd_.get(), piece.data(), piece.size(), 0);
    if (got > 0) {
      last_received_ = Clock::now();
      reader_.feed({piece.data(), static_cast<size_t>(got)});
      if (static_cast<size_t>(got) < piece.size()) return;
    } else if (got == 0) {
      return close("the connection was closed");
    } else if (errno == EAGAIN || errno == ENOTCONN) {
      return;
    } else if (errno != EINTR) {
      return close(fmt::format("the connection failed: {}", std::strerror(errno)));
    }
  }
}

std::optional<std::string> Connection::next() {
  try {
    auto content = reader_.next();
    if (content && incoming_) content = incoming_->open(*content);
    return content;
  } catch (const Error& error) {
    close(error.what());
    has_protocol_error_ = true;
    reader_ = FrameReader(0);
    return std::nullopt;
  }
}

void Connection::send(std::string_view message) {
  if (!is_open()) return;
  pending_ += outgoing_ ? make_frame(outgoing_->seal(message)) : make_frame(message);
  if (pending_.size() > kMaxPendingBytes) return close("the other end does not read its messages");
  write_some();
}

void Connection::close(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
  fd_.close();
}

void Connection::trust(Side own, const std::string& token, const Challenges& challenges) {
  reader_.set_max_bytes(kMaxMessageBytes);
  const auto other = own == Side::Coordinator ? Side::Node : Side::Coordinator;
  outgoing_.emplace(own, token, challenges);
  incoming_.emplace(other, token, challenges);
}

}  // namespace lockstep::launch
