#include "launch/protocol/rendezvous_options.h"

#include <fmt/format.h>

#include "core/error.h"
#include "launch/protocol/address.h"

namespace lockstep {

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
          "several nodes need an endpoint to meet at: a host and a port");
  require(options.keep_alive.count() > 0 && options.keep_alive_attempts > 0,
          "the keep-alive interval and its attempts must be at least 1");
  require(!options.token.empty() || is_loopback(options.host),
          fmt::format("{} is beyond this machine, so every node needs the job's token: make one "
                      "with 'lockstep launch --new-token FILE', copy FILE to every node and give "
                      "--rdzv-token-file FILE there, or set LOCKSTEP_RDZV_TOKEN",
                      options.host));
}

}  // namespace lockstep
