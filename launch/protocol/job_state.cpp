#include "launch/protocol/job_state.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::launch {
namespace {

int num_members(const JobNode& node) { return node.num_ranks + node.num_spares; }

}  // namespace

int JobState::num_ranks_on(int node) const {
  size_t first = 0;
  for (int i = 0; i < node; ++i)
    first += static_cast<size_t>(num_members(nodes[static_cast<size_t>(i)]));
  const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(first);
  return static_cast<int>(std::count_if(begin,
                                        begin + num_members(nodes[static_cast<size_t>(node)]),
                                        [](int rank) { return rank >= 0; }));
}

bool JobState::has_ranks_without(int node) const {
  const auto num_ranks = std::ranges::count_if(ranks, [](int rank) { return rank >= 0; });
  return num_ranks > num_ranks_on(node);
}

bool JobState::is_consistent() const {
  size_t members = 0;
  for (const auto& node : nodes) members += static_cast<size_t>(num_members(node));
  return ranks.size() == members && flags.size() == members && starts.size() == members &&
         coordinator >= 0 && coordinator < static_cast<int>(nodes.size()) &&
         std::ranges::all_of(ranks, [&](int rank) { return rank < world_size; }) &&
         std::ranges::all_of(losses, [&](const auto& loss) { return loss.rank < world_size; });
}

}  // namespace lockstep::launch
