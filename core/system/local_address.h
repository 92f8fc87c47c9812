// Addresses and names of this machine.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

// The numeric address of the interface that routes to `host`, determined with a UDP connect, which
// sends no packet. nullopt if `host` cannot be resolved or reached.
std::optional<std::string> local_address_for(const std::string& host);

// The first numeric address to which `host` resolves, or nullopt.
std::optional<std::string> numeric_address_of(const std::string& host);

// Whether `host` is a name that resolves to a loopback address on this machine only: Debian's
// /etc/hosts maps the host name to 127.0.1.1, while other machines resolve it to a reachable
// address. False for "localhost" and numeric addresses. Blocks on name resolution.
bool is_name_for_loopback(const std::string& host);

// The host name of this machine; "localhost" if it is not available.
std::string own_host_name();

}  // namespace lockstep
