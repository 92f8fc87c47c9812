#include "launch/launch_options.h"

#include <fmt/format.h>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr int kMaxWorkers = 1024;

}  // namespace

void verify(const LaunchOptions& options) {
  const auto require = [](bool valid, const std::string& message) {
    if (!valid) throw config_error(message);
  };
  require(options.num_workers >= 1 && options.num_workers <= kMaxWorkers,
          fmt::format("{} workers on a node: expected 1 to {}", options.num_workers, kMaxWorkers));
  require(options.num_nodes >= 1, fmt::format("{} nodes: expected at least 1", options.num_nodes));
  require(options.node_rank >= 0 && options.node_rank < options.num_nodes,
          fmt::format("node rank {}: expected 0 to {}, one less than the number of nodes",
                      options.node_rank, options.num_nodes - 1));
}

}  // namespace lockstep
