#include "data/grouped_order.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "data/random.h"

namespace lockstep {
namespace {

void shuffle(std::span<int64_t> items, SampleRandom& random) {
  for (auto left = items.size(); left > 1; --left) {
    const auto chosen = static_cast<size_t>(random.uniform() * static_cast<double>(left));
    std::swap(items[left - 1], items[chosen]);
  }
}

}  // namespace

std::vector<int64_t> grouped_order(std::span<const int64_t> ends, int64_t lanes, int64_t mixed,
                                   uint64_t seed) {
  check(!ends.empty() && lanes >= 1 && mixed >= 1, "an order of groups needs some of each");
  // The places of epoch and sample in the key are taken by what is shuffled.
  SampleRandom of_groups(seed, 0, 0), of_samples(seed, 1, 0);
  std::vector<int64_t> groups(ends.size());
  std::iota(groups.begin(), groups.end(), 0);
  shuffle(groups, of_groups);
  std::vector<int64_t> sequence;
  sequence.reserve(static_cast<size_t>(ends.back()));
  for (size_t i = 0, begin = 0; i < groups.size(); ++i) {
    const auto group = static_cast<size_t>(groups[i]);
    for (auto sample = group == 0 ? 0 : ends[group - 1]; sample < ends[group]; ++sample)
      sequence.push_back(sample);
    const bool is_full = (i + 1) % static_cast<size_t>(mixed) == 0 || i + 1 == groups.size();
    if (!is_full) continue;
    shuffle(std::span(sequence).subspan(begin), of_samples);
    begin = sequence.size();
  }
  const auto share = sequence.size() / static_cast<size_t>(lanes);
  std::vector<int64_t> order;
  order.reserve(sequence.size());
  for (size_t i = 0; i < share; ++i)
    for (size_t lane = 0; lane < static_cast<size_t>(lanes); ++lane)
      order.push_back(sequence[lane * share + i]);
  order.insert(order.end(), sequence.begin() + static_cast<std::ptrdiff_t>(order.size()),
               sequence.end());
  return order;
}

}  // namespace lockstep
