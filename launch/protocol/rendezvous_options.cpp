#include "launch/protocol/rendezvous_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/system/socket_address.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

Error difference(const std::string& what, const NodeNames& names) {
  return config_error(
      fmt::format("{} differs between {} and {}, which serves the rendezvous: it must be the same "
                  "on every node",
                  what, names.newcomer, names.server));
}

}  // namespace

void verify(const RendezvousOptions& options) {
  const auto require = [](bool valid, const std::string& message) {
    if (!valid) throw config_error(message);
  };
  require(options.min_nodes >= 1 && options.min_nodes <= options.max_nodes,
          fmt::format("{} to {} nodes: expected at least 1, the smaller number first",
                      options.min_nodes, options.max_nodes));
  if (options.max_nodes == 1) return;
  require(!options.node_rank || (*options.node_rank >= 0 && *options.node_rank < options.max_nodes),
          fmt::format("node rank {}: expected 0 to {}, one less than the number of nodes",
                      options.node_rank.value_or(0), options.max_nodes - 1));
  require(!options.host.empty() && options.port > 0,
          "several nodes need a rendezvous endpoint: a host and a port");
  require(options.keep_alive.count() > 0 && options.keep_alive_attempts > 0,
          "the keep-alive interval and its attempts must be at least 1");
  require(!options.token.empty() || is_loopback(options.host),
          fmt::format("{} is not a loopback address, so every node needs the job's token: create "
                      "one with 'lockstep launch --new-token FILE', copy FILE to every node and "
                      "give --rdzv-token-file FILE there, or set LOCKSTEP_RDZV_TOKEN",
                      options.host));
}

void require_same(const std::vector<Agreement>& servers, const std::vector<Agreement>& newcomers,
                  const NodeNames& names) {
  for (size_t i = 0; i < std::max(servers.size(), newcomers.size()); ++i) {
    if (i >= servers.size() || i >= newcomers.size() || servers[i].what != newcomers[i].what)
      throw difference("the list of settings that must match", names);
    const auto &ours = servers[i].value, &theirs = newcomers[i].value;
    if (ours == theirs) continue;
    if (std::max(ours.size(), theirs.size()) > kMaxShownValueLength)
      throw difference(servers[i].what, names);
    throw config_error(
        fmt::format("{} is '{}' on {}, but '{}' on {}, which serves the rendezvous: it must be the "
                    "same on every node",
                    servers[i].what, theirs, names.newcomer, ours, names.server));
  }
}

}  // namespace lockstep::launch
