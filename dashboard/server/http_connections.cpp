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

HttpConnections::HttpConnections(ReceptionLimits limits, std::function<void(HttpArrival)> take)
    : limits_(limits), take_(std::move(take)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_.is_open()) throw errno_error("cannot make an event counter");
  thread_ = std::jthread([this] { work(); });
}

HttpConnections::~HttpConnections() { stop(); }

void HttpConnections::add(FileDescriptor socket, std::string received, int num_served) {
  Guest guest;
  guest.socket = std::move(socket);
  guest.received = std::move(received);
  guest.num_served = num_served;
  guest.until = Clock::now() + limits_.patience;
  enter(std::move(guest));
}

void HttpConnections::dismiss(FileDescriptor socket) {
  ::shutdown(socket.get(), SHUT_WR);
  Guest guest;
  guest.socket = std::move(socket);
  guest.is_leaving = true;
  guest.until = Clock::now() + limits_.farewell;
  enter(std::move(guest));
}

void HttpConnections::enter(Guest guest) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  arriving_.push_back(std::move(guest));
  const uint64_t one = 1;
  [[maybe_unused]] const auto rung = ::write(bell_.get(), &one, sizeof(one));
}

void HttpConnections::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const auto rung = ::write(bell_.get(), &one, sizeof(one));
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<HttpConnections::Guest> HttpConnections::newcomers(bool& stopping) {
  uint64_t rings = 0;
  [[maybe_unused]] const auto heard = ::read(bell_.get(), &rings, sizeof(rings));
  const MutexLock lock(mutex_);
  stopping = stopping_;
  return std::exchange(arriving_, {});
}

// Fills events_.
void HttpConnections::wait(std::chrono::milliseconds most) {
  std::vector<pollfd> polled;
  for (const auto& guest : guests_)
    polled.push_back({.fd = guest.socket.get(), .events = POLLIN, .revents = 0});
  polled.push_back({.fd = bell_.get(), .events = POLLIN, .revents = 0});
  const auto num_events = ::poll(polled.data(), polled.size(), static_cast<int>(most.count()));
  events_.clear();
  for (const auto& one : polled) events_.push_back(num_events > 0 ? one.revents : short{0});
}

void HttpConnections::work() {
  bool stopping = false;
  while (!stopping) {
    auto most = kMaxPoll;
    for (const auto& guest : guests_)
      most = std::min(most, std::chrono::ceil<std::chrono::milliseconds>(
                                std::max(guest.until - Clock::now(), Clock::duration(0))));
    wait(most);
    size_t i = 0;
    for (auto it = guests_.begin(); it != guests_.end(); ++i)
      it = look_at(*it, events_[i] != 0) ? std::next(it) : guests_.erase(it);
    for (auto& guest : newcomers(stopping)) {
      // What was read with the request before may be a whole one.
      guests_.push_back(std::move(guest));
      if (!look_at(guests_.back(), true)) guests_.pop_back();
      if (guests_.size() > limits_.connections) guests_.pop_front();
    }
  }
  guests_.clear();
}

bool HttpConnections::look_at(Guest& guest, bool has_news) {
  if (has_news && !receive(guest)) return false;
  return Clock::now() < guest.until;
}

// Reads what is there. False: the connection ended.
bool HttpConnections::read_some(Guest& guest, bool& is_over) {
  std::array<char, 16384> piece;
  const auto count = ::recv(guest.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  is_over = count == 0;
  guest.num_read += static_cast<size_t>(count);
  if (!guest.is_leaving) guest.received.append(piece.data(), static_cast<size_t>(count));
  return true;
}

bool HttpConnections::receive(Guest& guest) {
  bool is_over = false;
  if (!read_some(guest, is_over)) return false;
  if (guest.is_leaving) return !is_over && guest.num_read <= limits_.farewell_bytes;
  auto extent = measure_request(guest.received, limits_.request);
  if (!extent.is_whole && !is_over) return true;
  if (!extent.is_whole)
    extent = {.is_whole = true, .bytes = guest.received.size(), .is_last = true};
  if (extent.bytes == 0) return false;  // it went without a word
  HttpArrival arrival;
  arrival.socket = std::move(guest.socket);
  arrival.rest = guest.received.substr(extent.bytes);
  arrival.request = std::move(guest.received);
  arrival.request.resize(extent.bytes);
  arrival.is_last = extent.is_last || (is_over && arrival.rest.empty());
  arrival.num_served = guest.num_served;
  take_(std::move(arrival));
  return false;
}

}  // namespace lockstep::dashboard
