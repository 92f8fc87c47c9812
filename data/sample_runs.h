// Groups the samples of a request by shard, so that each shard is read once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace lockstep::data {

// Calls use(shard, rows, places) for each shard that has samples: rows[i], relative to the start of
// the shard, is the sample at position places[i] of `indices`. `ends`: of the shards, as in
// SampleInfo::shards; indices are below the last one.
template <class Use>
void for_each_shard(const std::vector<int64_t>& ends, std::span<const int64_t> indices,
                    const Use& use) {
  std::vector<int64_t> rows, places;
  if (ends.size() == 1) {
    if (indices.empty()) return;
    places.resize(indices.size());
    std::iota(places.begin(), places.end(), 0);
    return use(size_t{0}, indices, std::span<const int64_t>(places));
  }
  std::vector<std::pair<size_t, int64_t>> order;  // shard and place
  order.reserve(indices.size());
  size_t last = 0;  // most samples are in the shard of the previous one
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto begin = last == 0 ? 0 : ends[last - 1];
    if (indices[i] < begin || indices[i] >= ends[last])
      last = static_cast<size_t>(std::ranges::upper_bound(ends, indices[i]) - ends.begin());
    order.emplace_back(last, static_cast<int64_t>(i));
  }
  if (!std::ranges::is_sorted(order)) std::ranges::sort(order);
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

}  // namespace lockstep::data
