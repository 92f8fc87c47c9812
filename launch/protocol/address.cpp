#include "launch/protocol/address.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/config/nearest_name.h"
#include "core/number_text.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr int kBacklog = 8192;  // capped by the kernel (somaxconn)

Error endpoint_error(const std::string& text, const std::string& option) {
  return config_error(
      fmt::format("{} {}: expected HOST or HOST:PORT, an IPv6 address with a port "
                  "in brackets: [ADDRESS]:PORT",
                  option, text));
}

FileDescriptor open_listener(const SocketAddress& address) {
  FileDescriptor fd(
      ::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  if (fd.is_open()) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.get()->sa_family == AF_INET6)
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return fd;
}

SocketAddress any_ipv4(int port) {
  SocketAddress address{.size = sizeof(sockaddr_in)};
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address.bytes);
  ipv4->sin_family = AF_INET;
  ipv4->sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A dual-stack socket reports 10.0.0.1 as "::ffff:10.0.0.1".
SocketAddress as_ipv4(const SocketAddress& mapped) {
  const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&mapped.bytes);
  auto address = any_ipv4(ntohs(ipv6->sin6_port));
  std::memcpy(&reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_addr,
              ipv6->sin6_addr.s6_addr + 12, 4);
  return address;
}

template <class Get>
SocketAddress address_from(int fd, Get get) {
  SocketAddress address;
  address.size = sizeof address.bytes;
  if (get(fd, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) address.size = 0;
  const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  const bool is_mapped = address.size > 0 && address.bytes.ss_family == AF_INET6 &&
                         IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr);
  return is_mapped ? as_ipv4(address) : address;
}

}  // namespace

Endpoint parse_endpoint(const std::string& text, int default_port, const std::string& option) {
  Endpoint endpoint{.host = text, .port = default_port};
  std::string port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string::npos) throw endpoint_error(text, option);
    endpoint.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
  } else if (const auto colon = text.find(':');
             colon != std::string::npos && text.find(':', colon + 1) == std::string::npos) {
    endpoint.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!port.empty()) endpoint.port = parse_number<int>(port.substr(1)).value_or(-1);
  if (!port.empty() && port.front() != ':') throw endpoint_error(text, option);
  if (endpoint.host.empty() || endpoint.port < 0 || endpoint.port > 65535)
    throw endpoint_error(text, option);
  return endpoint;
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw errno_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, ::freeifaddrs);
  std::vector<std::string> names;
  std::string ipv6;
  for (const auto* entry = found; entry; entry = entry->ifa_next) {
    names.emplace_back(entry->ifa_name);
    const int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if (name != entry->ifa_name || (family != AF_INET && family != AF_INET6)) continue;
    SocketAddress address;
    address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.bytes, entry->ifa_addr, address.size);
    if (family == AF_INET) return address.host();
    if (ipv6.empty() || ipv6.starts_with("fe80:")) ipv6 = address.host();
  }
  if (!ipv6.empty()) return ipv6;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  throw config_error(fmt::format("--interface {}: no such interface with an address{}", name,
                                 suggest(name, names)));
}

Error cannot_listen(const SocketAddress& address, int reason) {
  return environment_error(fmt::format("cannot listen at {}: {}; choose another port",
                                       address.text(), std::strerror(reason)));
}

Listener try_listen(const SocketAddress& address) {
  auto fd = open_listener(address);
  if (!fd.is_open() || ::bind(fd.get(), address.get(), address.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return {.fd = std::nullopt, .reason = errno};
  return {.fd = std::move(fd)};
}

Listener try_listen_everywhere(int port) {
  SocketAddress both{.size = sizeof(sockaddr_in6)};
  auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&both.bytes);
  ipv6->sin6_family = AF_INET6;
  ipv6->sin6_port = htons(static_cast<uint16_t>(port));
  const bool has_ipv6 = open_listener(both).is_open();
  auto listener = try_listen(has_ipv6 ? both : any_ipv4(port));
  if (listener.reason == EADDRNOTAVAIL) listener = try_listen(any_ipv4(port));
  return listener;
}

FileDescriptor listen_everywhere(int port) {
  auto listener = try_listen_everywhere(port);
  if (!listener.fd) throw cannot_listen(any_ipv4(port), listener.reason);
  return std::move(*listener.fd);
}

SocketAddress local_address(int fd) { return address_from(fd, ::getsockname); }
SocketAddress remote_address(int fd) { return address_from(fd, ::getpeername); }

}  // namespace lockstep::launch
