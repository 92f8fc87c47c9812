#include "core/system/local_address.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/socket_address.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

// The addresses of `host`; empty if there are none.
std::vector<SocketAddress> look_up(const std::string& host) {
  constexpr int kAnyPort = 9;
  try {
    return resolve(host, kAnyPort);
  } catch (const Error&) {
    return {};
  }
}

bool is_numeric(const std::string& host) {
  in6_addr address{};
  const auto without_scope = host.substr(0, host.find('%'));
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, without_scope.c_str(), &address) == 1;
}

}  // namespace

std::optional<std::string> local_address_for(const std::string& host) {
  const auto found = look_up(host);
  if (found.empty()) return std::nullopt;
  const auto& remote = found.front();
  const FileDescriptor socket(::socket(remote.bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress own{.size = sizeof(sockaddr_storage)};
  auto* const address = reinterpret_cast<sockaddr*>(&own.bytes);
  if (!socket.is_open() || ::connect(socket.get(), remote.get(), remote.size) != 0 ||
      ::getsockname(socket.get(), address, &own.size) != 0)
    return std::nullopt;
  return own.host();
}

std::optional<std::string> numeric_address_of(const std::string& host) {
  const auto found = look_up(host);
  return found.empty() ? std::nullopt : std::optional(found.front().host());
}

bool is_name_for_loopback(const std::string& host) {
  if (is_numeric(host) || host == "localhost" || host.starts_with("localhost.") ||
      host.ends_with(".localhost") || host == "ip6-localhost")
    return false;
  return is_loopback(host);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace lockstep
