// Reads cases "n world rank seed epoch drop_last shuffle weighted" (the last three 0 or 1), one per
// line; prints for each the indices of that rank in one line. Weighted: sample i has the weight
// i % 7. For sampler_against_python.py.
#include <iostream>

#include "data/sampler.h"

int main() {
  int64_t n = 0, epoch = 0;
  bool weighted = false;
  lockstep::Shard shard;
  lockstep::SamplerOptions options;
  while (std::cin >> n >> shard.world >> shard.rank >> options.seed >> epoch >> options.drop_last >>
         options.shuffle >> weighted) {
    options.weights.clear();
    for (int64_t i = 0; weighted && i < n; ++i)
      options.weights.push_back(static_cast<double>(i % 7));
    lockstep::DistributedSampler sampler(n, shard, options);
    sampler.set_epoch(epoch);
    for (const auto index : sampler.indices()) std::cout << index << ' ';
    std::cout << '\n';
  }
  return std::cin.eof() ? 0 : 1;
}
