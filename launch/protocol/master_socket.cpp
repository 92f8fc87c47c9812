#include "launch/protocol/master_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "launch/protocol/address.h"

namespace lockstep {
namespace {

constexpr int kBacklog = 8192;  // the kernel lowers it to what it allows (net.core.somaxconn)

Error listen_error(int port, int reason) {
  return environment_error(fmt::format("cannot listen on port {}: {}; choose another --master-port",
                                       port, std::strerror(reason)));
}

FileDescriptor open_socket(int family) {
  FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (fd.is_open()) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

FileDescriptor bind_ipv4(int port, in_addr_t address) {
  auto fd = open_socket(AF_INET);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(address);
  if (!fd.is_open() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    throw listen_error(port, errno);
  return fd;
}

// Both protocols where the host has IPv6, otherwise IPv4.
FileDescriptor bind_everywhere(int port) {
  auto fd = open_socket(AF_INET6);
  const int off = 0;
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(static_cast<uint16_t>(port));
  name.sin6_addr = in6addr_any;
  if (fd.is_open() && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return fd;
    if (errno == EADDRINUSE || errno == EACCES) throw listen_error(port, errno);
  }
  return bind_ipv4(port, INADDR_ANY);
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0)
    throw errno_error("cannot read a socket's port");
  // Both families have the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

}  // namespace

MasterSocket listen_as_master(int port, bool loopback_only) {
  if (port < 0 || port > 65535)
    throw config_error(
        fmt::format("--master-port {}: expected 1 to 65535, or 0 for a free one", port));
  MasterSocket master;
  master.fd = loopback_only ? bind_ipv4(port, INADDR_LOOPBACK) : bind_everywhere(port);
  if (::listen(master.fd.get(), kBacklog) != 0) throw listen_error(port, errno);
  master.port = port_of(master.fd.get());
  return master;
}

MasterSocket listen_as_master_at(const std::string& address) {
  const auto wanted = resolve(address, 0).front();
  auto listener = try_listen(wanted);
  if (listener.reason == EADDRNOTAVAIL) return listen_as_master(0, false);
  if (!listener.fd) throw cannot_listen(wanted, listener.reason);
  const int fd = listener.fd->get();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // the store expects one that waits
  const int port = port_of(fd);
  return {.fd = std::move(*listener.fd), .port = port};
}

}  // namespace lockstep
