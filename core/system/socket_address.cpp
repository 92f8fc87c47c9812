#include "core/system/socket_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "lockstep/error.h"

namespace lockstep {

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = {};
  if (size == 0 || ::getnameinfo(get(), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return text;
}

int SocketAddress::port() const {
  // The port has the same offset in both address families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_port);
}

std::string SocketAddress::text() const {
  return bytes.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host(), port())
                                     : fmt::format("{}:{}", host(), port());
}

bool SocketAddress::is_loopback() const {
  if (bytes.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr);
  const auto address = ntohl(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_addr.s_addr);
  return bytes.ss_family == AF_INET && (address >> 24) == IN_LOOPBACKNET;
}

bool SocketAddress::is_any() const {
  if (bytes.ss_family == AF_INET6)
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr);
  return reinterpret_cast<const sockaddr_in*>(&bytes)->sin_addr.s_addr == INADDR_ANY;
}

std::vector<SocketAddress> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0)
    throw environment_error(fmt::format("cannot resolve '{}': {}", host, ::gai_strerror(result)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const auto* entry = found; entry; entry = entry->ai_next) {
    SocketAddress address{.size = entry->ai_addrlen};
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    addresses.push_back(address);
  }
  return addresses;
}

bool is_loopback(const std::string& host) {
  try {
    const auto addresses = resolve(host, 0);
    return std::all_of(addresses.begin(), addresses.end(),
                       [](const auto& address) { return address.is_loopback(); });
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep
