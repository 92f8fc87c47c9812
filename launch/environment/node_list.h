// Slurm's short form of a list of host names: "n[1-3,07],m02" is n1, n2, n3, n07, m02. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::launch {

// The first host of such a list; a name may contain several ranges (the first of "r[1-2]n[1-4]" is
// r1n1). nullopt if the list is malformed. Parses only as far as the first host requires.
std::optional<std::string> first_host(std::string_view list);

}  // namespace lockstep::launch
