#include "tracking/sinks/wandb/core_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/number_text.h"
#include "core/system/poll_set.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr auto kCoreSendTimeout = 5s;
constexpr char kCoreMagic = 'W';
constexpr size_t kCoreFrameHeader = 5;
constexpr size_t kMaxCoreResponseBytes = 64u << 20;

Error core_exited_error() {
  return environment_error("wandb-core exited before the upload was complete");
}

// Returns false if `events` did not occur before the deadline.
bool wait_for_socket(int fd, short events, Clock::time_point deadline) {
  pollfd request = {.fd = fd, .events = events, .revents = 0};
  const int ready = poll_until({&request, 1}, deadline);
  if (ready < 0) throw errno_error("cannot wait for wandb-core");
  return ready > 0;
}

void connect_core(int fd, const sockaddr* address, socklen_t size) {
  if (::connect(fd, address, size) != 0) throw errno_error("cannot connect to wandb-core");
}

FileDescriptor core_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) throw errno_error("cannot create a socket");
  return socket;
}

// A relative path is resolved against `directory`, whose absolute path may exceed the limit of
// socket addresses.
FileDescriptor connect_unix(const std::string& path, const std::filesystem::path& directory) {
  FileDescriptor base(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.is_open()) throw errno_error(fmt::format("cannot open {}", directory.string()));
  const auto full =
      path.starts_with('/') ? path : fmt::format("/proc/self/fd/{}/{}", base.get(), path);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (full.size() >= sizeof address.sun_path)
    throw environment_error(fmt::format("the path of wandb-core's socket is too long: {}", full));
  std::ranges::copy(full, address.sun_path);
  auto socket = core_socket(AF_UNIX);
  connect_core(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return socket;
}

FileDescriptor connect_loopback(const std::string& port_text) {
  const auto port = parse_number<uint16_t>(port_text).value_or(0);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto socket = core_socket(AF_INET);
  connect_core(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return socket;
}

}  // namespace

CoreConnection::CoreConnection(const CoreProcess& process) {
  const auto where = process.address().substr(5);
  socket_ = process.address().starts_with("unix=") ? connect_unix(where, process.scratch())
                                                   : connect_loopback(where);
  if (::fcntl(socket_.get(), F_SETFL, O_NONBLOCK) != 0) throw errno_error("cannot set up a socket");
}

void CoreConnection::send(std::string_view request) {
  std::string frame(1, kCoreMagic);
  for (int shift = 0; shift < 32; shift += 8)
    frame += static_cast<char>(request.size() >> shift & 0xff);
  frame += request;
  const auto deadline = Clock::now() + kCoreSendTimeout;
  for (size_t sent = 0; sent < frame.size();) {
    const auto count =
        ::send(socket_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count > 0)
      sent += static_cast<size_t>(count);
    else if (errno == EPIPE || errno == ECONNRESET)
      throw core_exited_error();
    else if (errno != EAGAIN && errno != EINTR)
      throw errno_error("cannot write to wandb-core");
    else if (!wait_for_socket(socket_.get(), POLLOUT, deadline))
      throw environment_error("wandb-core does not respond");
  }
}

std::optional<std::string> CoreConnection::receive(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    if (auto response = next_response()) return response;
    if (!wait_for_socket(socket_.get(), POLLIN, deadline)) return std::nullopt;
    std::array<char, 1 << 16> buffer;
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) throw core_exited_error();
    if (count > 0)
      received_.append(buffer.data(), static_cast<size_t>(count));
    else if (errno != EAGAIN && errno != EINTR)
      throw errno_error("cannot read from wandb-core");
  }
}

std::optional<std::string> CoreConnection::next_response() {
  if (received_.size() < kCoreFrameHeader) return std::nullopt;
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i)
    size |= static_cast<size_t>(static_cast<unsigned char>(received_[1 + i])) << (8 * i);
  if (received_.front() != kCoreMagic || size > kMaxCoreResponseBytes)
    throw environment_error("wandb-core sent a malformed response");
  if (received_.size() < kCoreFrameHeader + size) return std::nullopt;
  auto response = received_.substr(kCoreFrameHeader, size);
  received_.erase(0, kCoreFrameHeader + size);
  return response;
}

}  // namespace lockstep::tracking
