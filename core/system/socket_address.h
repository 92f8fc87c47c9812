// Numeric addresses, and the names that stand for them. Nothing is ever looked up backwards.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

namespace lockstep {

// A numeric address with a port, IPv4 or IPv6.
struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  // "10.0.0.1", "fe80::1%eth0"
  std::string host() const;
  int port() const;
  // "10.0.0.1:29400", "[::1]:29400"
  std::string text() const;
  bool is_loopback() const;
  bool is_any() const;
};

// All addresses of a name or of a numeric host. Waits for the name service. Throws Environment.
std::vector<SocketAddress> resolve(const std::string& host, int port);

// Whether every address of `host` is of this machine only. A name that cannot be looked up is not.
bool is_loopback(const std::string& host);

}  // namespace lockstep
