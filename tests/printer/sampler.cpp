// Reads cases "n world rank seed epoch drop_last shuffle weighted" (the last three 0 or 1), one per
// line; prints for each the indices of that rank in one line. Weighted: sample i has the weight
// i % 7. For sampler_against_python.py.
#include <iostream>

#include "data/sampling/sampler.h"
#include "tests/printer/commands.h"

namespace lockstep::printer {

int print_sampler(const Arguments&) {
  int64_t n = 0, epoch = 0;
  bool weighted = false;
  data::Shard shard;
  data::SamplerOptions options;
  while (std::cin >> n >> shard.world >> shard.rank >> options.seed >> epoch >>
         options.batches.drop_last >> options.shuffle >> weighted) {
    options.weights.clear();
    for (int64_t i = 0; weighted && i < n; ++i)
      options.weights.push_back(static_cast<double>(i % 7));
    data::DistributedSampler sampler(n, shard, options);
    sampler.set_epoch(epoch);
    for (const auto index : sampler.indices()) std::cout << index << ' ';
    std::cout << '\n';
  }
  return std::cin.eof() ? 0 : 1;
}

}  // namespace lockstep::printer
