// Socket addresses and name resolution. Never performs reverse lookups.
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

// All addresses of a host name or numeric address. Blocks on name resolution. Throws Environment.
std::vector<SocketAddress> resolve(const std::string& host, int port);

// Whether every address of `host` is a loopback address. False if it cannot be resolved.
bool is_loopback(const std::string& host);

}  // namespace lockstep
