// The hosts of a launch, as in a hostfile of OpenMPI: one host per line, "[user@]host[:port]
// [slots=N]". '#' begins a comment. Pure: no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

struct Host {
  std::string name;  // a name, a number, or an alias of ssh's configuration; IPv6 without brackets
  std::optional<std::string> user;
  std::optional<int> port;   // of ssh
  std::optional<int> slots;  // how many ranks it takes
  int line = 0;              // where in the file, from 1
};

// `origin`: the file's name, for errors. Throws Config, with file and line, for what it does not
// understand, for a host that is named twice, and for a file without hosts.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& origin);

// How many ranks `host` gets: `wanted` where it is given, else its slots, else one. Throws Config
// when more are wanted than it has slots.
int ranks_on(const Host& host, std::optional<int> wanted, const std::string& origin);

}  // namespace lockstep::launch
