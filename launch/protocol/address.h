// Addresses of the rendezvous. Names are looked up once; what travels is numeric, and nothing is
// ever looked up backwards.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/system/file_descriptor.h"

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

struct Endpoint {
  std::string host;
  int port = 0;
};

// "HOST", "HOST:PORT", "[IPv6]:PORT" or "IPv6". Throws Config, naming `option`.
Endpoint parse_endpoint(const std::string& text, int default_port, const std::string& option);

// All addresses of a name or of a numeric host. Waits for the name service. Throws Environment.
std::vector<SocketAddress> resolve(const std::string& host, int port);

// Whether every address of `host` is of this machine only. A name that cannot be looked up is not.
bool is_loopback(const std::string& host);

// The address of a network interface ("eth0"), IPv4 first. Throws Config, naming those there are.
std::string address_of_interface(const std::string& name);

// A socket that listens, does not block and is closed on exec; or the errno for which there is
// none: EADDRNOTAVAIL when the address is not this machine's.
struct Listener {
  std::optional<FileDescriptor> fd;
  int reason = 0;
};
Listener try_listen(const SocketAddress& address);
Error cannot_listen(const SocketAddress& address, int reason);
// At every address of this machine.
Listener try_listen_everywhere(int port);
// The same. Throws Environment.
FileDescriptor listen_everywhere(int port);

// Of a connected or bound socket; an IPv4 address also where the socket takes both kinds.
SocketAddress local_address(int fd);
SocketAddress peer_address(int fd);

}  // namespace lockstep
