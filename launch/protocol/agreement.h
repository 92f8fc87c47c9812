// What the nodes of a job must have in common.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Something that must be the same on every node, e.g. {"the run file", "<digest>"}.
struct Agreement {
  std::string what, value;
};

struct NodeNames {
  std::string newcomer, server;
};

// Throws Config, naming the first thing that differs; long values (digests) are not shown.
void require_same(const std::vector<Agreement>& servers, const std::vector<Agreement>& newcomers,
                  const NodeNames& names);

}  // namespace lockstep
