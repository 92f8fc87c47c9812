// What this machine is called by others.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

// The numeric address of the interface that reaches `host`: a UDP connect asks the routing table
// and sends nothing. nullopt where `host` cannot be resolved or reached.
std::optional<std::string> local_address_towards(const std::string& host);

std::string own_host_name();

}  // namespace lockstep
