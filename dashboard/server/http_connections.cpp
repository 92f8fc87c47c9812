#include "dashboard/server/http_connections.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/error.h"

namespace lockstep::dashboard {
namespace {

constexpr std::chrono::milliseconds kMaxPoll{1000};

}  // namespace

HttpConnections::HttpConnections(ConnectionLimits limits,
                                 std::function<void(ReceivedRequest)> on_request)
    : limits_(limits),
      on_request_(std::move(on_request)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakeup_.is_open()) throw errno_error("cannot create an eventfd");
  thread_ = std::jthread([this] { run(); });
}

HttpConnections::~HttpConnections() { stop(); }

void HttpConnections::add(FileDescriptor socket, std::string received, int num_served) {
  Connection connection;
  connection.socket = std::move(socket);
  connection.received = std::move(received);
  connection.num_served = num_served;
  connection.deadline = Clock::now() + limits_.request_timeout;
  enqueue(std::move(connection));
}

void HttpConnections::close_gracefully(FileDescriptor socket) {
  ::shutdown(socket.get(), SHUT_WR);
  Connection connection;
  connection.socket = std::move(socket);
  connection.is_closing = true;
  connection.deadline = Clock::now() + limits_.linger_timeout;
  enqueue(std::move(connection));
}

void HttpConnections::wake_up() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wakeup_.get(), &one, sizeof(one));
}

void HttpConnections::enqueue(Connection connection) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  added_.push_back(std::move(connection));
  wake_up();
}

void HttpConnections::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wake_up();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<HttpConnections::Connection> HttpConnections::take_added(bool& stopping) {
  uint64_t count = 0;
  [[maybe_unused]] const auto size = ::read(wakeup_.get(), &count, sizeof(count));
  const MutexLock lock(mutex_);
  stopping = stopping_;
  return std::exchange(added_, {});
}

// Fills events_.
void HttpConnections::poll_events(std::chrono::milliseconds timeout) {
  std::vector<pollfd> polled;
  for (const auto& connection : connections_)
    polled.push_back({.fd = connection.socket.get(), .events = POLLIN, .revents = 0});
  polled.push_back({.fd = wakeup_.get(), .events = POLLIN, .revents = 0});
  const auto num_events = ::poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));
  events_.clear();
  for (const auto& one : polled) events_.push_back(num_events > 0 ? one.revents : short{0});
}

void HttpConnections::run() {
  bool stopping = false;
  while (!stopping) {
    auto timeout = kMaxPoll;
    for (const auto& connection : connections_)
      timeout = std::min(timeout, std::chrono::ceil<std::chrono::milliseconds>(std::max(
                                      connection.deadline - Clock::now(), Clock::duration(0))));
    poll_events(timeout);
    size_t i = 0;
    for (auto it = connections_.begin(); it != connections_.end(); ++i)
      it = update(*it, events_[i] != 0) ? std::next(it) : connections_.erase(it);
    for (auto& connection : take_added(stopping)) {
      // The bytes read with the previous request may already be a complete request.
      connections_.push_back(std::move(connection));
      if (!update(connections_.back(), true)) connections_.pop_back();
      if (connections_.size() > limits_.max_connections) connections_.pop_front();
    }
  }
  connections_.clear();
}

bool HttpConnections::update(Connection& connection, bool has_events) {
  if (has_events && !receive(connection)) return false;
  return Clock::now() < connection.deadline;
}

// Reads what is available without blocking. False: the connection failed.
bool HttpConnections::read_some(Connection& connection, bool& at_end) {
  std::array<char, 16384> buffer;
  const auto count = ::recv(connection.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  at_end = count == 0;
  connection.num_read += static_cast<size_t>(count);
  if (!connection.is_closing) connection.received.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

bool HttpConnections::receive(Connection& connection) {
  bool at_end = false;
  if (!read_some(connection, at_end)) return false;
  if (connection.is_closing) return !at_end && connection.num_read <= limits_.linger_bytes;
  auto extent = measure_request(connection.received, limits_.request);
  if (!extent.is_complete && !at_end) return true;
  if (!extent.is_complete)
    extent = {.is_complete = true, .bytes = connection.received.size(), .is_last = true};
  if (extent.bytes == 0) return false;  // closed without a request
  ReceivedRequest request;
  request.socket = std::move(connection.socket);
  request.rest = connection.received.substr(extent.bytes);
  request.bytes = std::move(connection.received);
  request.bytes.resize(extent.bytes);
  request.is_last = extent.is_last || (at_end && request.rest.empty());
  request.num_served = connection.num_served;
  on_request_(std::move(request));
  return false;
}

}  // namespace lockstep::dashboard
