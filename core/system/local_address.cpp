#include "core/system/local_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "core/system/file_descriptor.h"

namespace lockstep {
namespace {

using FoundAddresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Empty when there are none.
FoundAddresses look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  constexpr auto kAnyPort = "9";
  if (::getaddrinfo(host.c_str(), kAnyPort, &hints, &found) != 0) found = nullptr;
  return {found, ::freeaddrinfo};
}

std::optional<std::string> numeric_text(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return std::nullopt;
  return text.data();
}

bool is_numeric(const std::string& host) {
  in6_addr address{};
  const auto without_scope = host.substr(0, host.find('%'));
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, without_scope.c_str(), &address) == 1;
}

bool is_loopback_address(const addrinfo& found) {
  if (found.ai_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(found.ai_addr)->sin6_addr);
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(found.ai_addr);
  return found.ai_family == AF_INET && (ntohl(ipv4->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

}  // namespace

std::optional<std::string> local_address_towards(const std::string& host) {
  const auto found = look_up(host);
  if (!found) return std::nullopt;
  const FileDescriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (!socket.is_open() || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0)
    return std::nullopt;
  return numeric_text(address, size);
}

std::optional<std::string> numeric_address_of(const std::string& host) {
  const auto found = look_up(host);
  return found ? numeric_text(found->ai_addr, found->ai_addrlen) : std::nullopt;
}

bool is_name_for_loopback(const std::string& host) {
  if (is_numeric(host) || host == "localhost" || host.starts_with("localhost.") ||
      host.ends_with(".localhost") || host == "ip6-localhost")
    return false;
  const auto found = look_up(host);
  if (!found) return false;
  for (const auto* entry = found.get(); entry; entry = entry->ai_next)
    if (!is_loopback_address(*entry)) return false;
  return true;
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace lockstep
