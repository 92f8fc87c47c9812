// Samples of a request, sorted by the shard they lie in, so that each shard is looked at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace lockstep {

// Calls use(shard, rows, places) for each shard of which there are samples: rows[i], counted from
// the shard's begin, is the sample at place places[i] of `indices`. `ends`: of the shards, as
// Dataset::shards() says; indices are below the last one.
template <class Use>
void for_each_shard(const std::vector<int64_t>& ends, std::span<const int64_t> indices,
                    const Use& use) {
  std::vector<std::pair<size_t, int64_t>> order;  // shard and place
  order.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto shard = ends.size() == 1 ? ends.begin() : std::ranges::upper_bound(ends, indices[i]);
    order.emplace_back(shard - ends.begin(), static_cast<int64_t>(i));
  }
  if (ends.size() > 1) std::ranges::sort(order);
  std::vector<int64_t> rows, places;
  for (size_t i = 0; i < order.size();) {
    const auto shard = order[i].first;
    const auto begin = shard == 0 ? 0 : ends[shard - 1];
    rows.clear();
    places.clear();
    for (; i < order.size() && order[i].first == shard; ++i) {
      places.push_back(order[i].second);
      rows.push_back(indices[static_cast<size_t>(order[i].second)] - begin);
    }
    use(shard, std::span<const int64_t>(rows), std::span<const int64_t>(places));
  }
}

}  // namespace lockstep
