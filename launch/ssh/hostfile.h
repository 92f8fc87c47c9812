// The hosts of a launch, in the format of OpenMPI hostfiles: one host per line,
// "[user@]host[:port] [slots=N]". '#' begins a comment. Pure: no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

struct Host {
  std::string name;  // a name, an address or an alias in ssh's configuration; IPv6 without brackets
  std::optional<std::string> user;
  std::optional<int> port;   // of ssh
  std::optional<int> slots;  // number of ranks
  int line = 0;              // line number in the file, from 1
};

// `origin`: the file's name, for errors. Throws Config, with file and line, if the syntax is
// invalid, a host is listed twice, or there are no hosts.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& origin);

// The number of ranks on `host`: `wanted` if given, else its slots, else one. Throws Config if
// `wanted` exceeds its slots.
int ranks_on(const Host& host, std::optional<int> wanted, const std::string& origin);

}  // namespace lockstep::launch
