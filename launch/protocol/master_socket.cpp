#include "launch/protocol/master_socket.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "launch/protocol/address.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

Error listen_error(int port, int reason) {
  return environment_error(fmt::format("cannot listen on port {}: {}; choose another --master-port",
                                       port, std::strerror(reason)));
}

MasterSocket master_of(Listener listener) {
  const int fd = listener.fd->get();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // the store expects a blocking socket
  const int port = local_address(fd).port();
  return {.fd = std::move(*listener.fd), .port = port};
}

}  // namespace

MasterSocket listen_as_master(int port, bool loopback_only) {
  if (port < 0 || port > 65535)
    throw config_error(
        fmt::format("--master-port {}: expected 1 to 65535, or 0 for a free one", port));
  auto listener =
      loopback_only ? try_listen(resolve("127.0.0.1", port).front()) : try_listen_everywhere(port);
  if (!listener.fd) throw listen_error(port, listener.reason);
  return master_of(std::move(listener));
}

MasterSocket listen_as_master_at(const std::string& address) {
  const auto wanted = resolve(address, 0).front();
  auto listener = try_listen(wanted);
  if (listener.reason == EADDRNOTAVAIL) return listen_as_master(0, false);
  if (!listener.fd) throw cannot_listen(wanted, listener.reason);
  return master_of(std::move(listener));
}

}  // namespace lockstep::launch
