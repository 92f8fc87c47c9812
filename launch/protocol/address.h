// Addresses of the rendezvous. Names are resolved once; nodes exchange numeric addresses.
#pragma once

#include <optional>
#include <string>

#include "core/system/file_descriptor.h"
#include "core/system/socket_address.h"
#include "lockstep/error.h"

namespace lockstep::launch {

struct Endpoint {
  std::string host;
  int port = 0;
  bool operator==(const Endpoint&) const = default;
};

// "HOST", "HOST:PORT", "[IPv6]:PORT" or "IPv6". Throws Config, naming `option`.
Endpoint parse_endpoint(const std::string& text, int default_port, const std::string& option);

// The address of a network interface ("eth0"), IPv4 first. Throws Config, naming the existing ones.
std::string address_of_interface(const std::string& name);

// A listening socket, non-blocking and close-on-exec, or the errno of the failure: EADDRNOTAVAIL
// if the address is not this machine's.
struct Listener {
  std::optional<FileDescriptor> fd;
  int reason = 0;
};
Listener try_listen(const SocketAddress& address);
Error cannot_listen(const SocketAddress& address, int reason);
// Listens on all addresses of this machine.
Listener try_listen_everywhere(int port);
// Like try_listen_everywhere(). Throws Environment.
FileDescriptor listen_everywhere(int port);

// Of a connected or bound socket. Dual-stack sockets report IPv4 addresses as IPv4.
SocketAddress local_address(int fd);
SocketAddress remote_address(int fd);

}  // namespace lockstep::launch
