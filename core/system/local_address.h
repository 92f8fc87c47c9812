// What this machine is called by others.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

// The numeric address of the interface that reaches `host`: a UDP connect asks the routing table
// and sends nothing. nullopt where `host` cannot be resolved or reached.
std::optional<std::string> local_address_towards(const std::string& host);

// The numeric address that the name service gives for `host`, the first one; nullopt for none.
std::optional<std::string> numeric_address_of(const std::string& host);

// Whether `host` is a name that this machine alone takes for itself: Debian's /etc/hosts gives a
// machine's own name to 127.0.1.1, while other machines know it by an address that they can reach.
// Not "localhost", and no number. Waits for the name service.
bool is_name_for_loopback(const std::string& host);

std::string own_host_name();

}  // namespace lockstep
