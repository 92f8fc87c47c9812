#include "trainer/prepared/first_samples.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// The first sample and the longest one, if lengths are known.
std::vector<int64_t> first_and_longest(const Dataset* dataset) {
  if (!dataset || dataset->size() == 0) return {};
  const auto lengths = dataset->sample_info().lengths();
  const auto longest = std::ranges::max_element(lengths) - lengths.begin();
  if (longest == 0 || std::ssize(lengths) != dataset->size()) return {0};
  return {0, longest};
}

}  // namespace

std::function<std::vector<Batch>()> first_samples_of(std::vector<const Dataset*> datasets,
                                                     bool may_skip_samples) {
  return [datasets = std::move(datasets), may_skip_samples] {
    std::vector<Batch> samples;
    for (const auto* dataset : datasets)
      for (const auto index : first_and_longest(dataset)) try {
          samples.push_back(dataset->get_batch(std::array{index}));
        } catch (const Error&) {
          if (!may_skip_samples) throw;
        }
    return samples;
  };
}

}  // namespace lockstep::trainer
