#include "launch/options/launch_options.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr int kMaxWorkers = 1024;

}  // namespace

void verify(const LaunchOptions& options) {
  const auto require = [](bool valid, const std::string& message) {
    if (!valid) throw config_error(message);
  };
  require(options.num_workers >= 1 && options.num_workers <= kMaxWorkers,
          fmt::format("{} workers on a node: expected 1 to {}", options.num_workers, kMaxWorkers));
  require(options.max_restarts >= 0,
          fmt::format("{} restarts: expected at least 0", options.max_restarts));
  require(options.rank_restarts >= 0,
          fmt::format("{} restarts of a rank: expected at least 0", options.rank_restarts));
  require(options.num_spares >= 0 && options.num_workers + options.num_spares <= kMaxWorkers,
          fmt::format(
              "--spares {}: expected at least 0, and at most {} workers together with the ranks",
              options.num_spares, kMaxWorkers));
  require(options.num_spares == 0 || options.continues_on_loss,
          "--spares has no effect without --on-rank-loss continue");
  verify(options.rendezvous);
}

}  // namespace lockstep::launch
