#include "launch/protocol/agreement.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr size_t kLongestShownValue = 40;

Error difference(const std::string& what, const NodeNames& names) {
  return config_error(
      fmt::format("{} is not the same on {} and {}, which serves the rendezvous: it must be the "
                  "same on every node",
                  what, names.newcomer, names.server));
}

}  // namespace

void require_same(const std::vector<Agreement>& servers, const std::vector<Agreement>& newcomers,
                  const NodeNames& names) {
  for (size_t i = 0; i < std::max(servers.size(), newcomers.size()); ++i) {
    if (i >= servers.size() || i >= newcomers.size() || servers[i].what != newcomers[i].what)
      throw difference("what must be the same", names);
    const auto &ours = servers[i].value, &theirs = newcomers[i].value;
    if (ours == theirs) continue;
    if (std::max(ours.size(), theirs.size()) > kLongestShownValue)
      throw difference(servers[i].what, names);
    throw config_error(
        fmt::format("{} is '{}' on {}, but '{}' on {}, which serves the rendezvous: it must be the "
                    "same on every node",
                    servers[i].what, theirs, names.newcomer, ours, names.server));
  }
}

}  // namespace lockstep
