// Slurm's short form of a list of host names: "n[1-3,07],m02" is n1, n2, n3, n07, m02. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::launch {

// The first host of such a list, also when a host's name holds several ranges ("r[1-2]n[1-4]"
// begins with r1n1). nullopt for what is no such list. Reads no further than the first host needs.
std::optional<std::string> first_host(std::string_view list);

}  // namespace lockstep::launch
