#include "trainer/prepared/first_samples.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// The longest sample; 0 if all have one shape, or if lengths are not known, or cannot be read and that is
// permitted.
int64_t longest_of(const Dataset& dataset, bool may_skip_samples) {
  if (!dataset.layout().empty()) return 0;
  try {
    const auto lengths = dataset.sample_info().lengths();
    if (std::ssize(lengths) != dataset.size()) return 0;
    return std::ranges::max_element(lengths) - lengths.begin();
  } catch (const Error&) {
    if (!may_skip_samples) throw;
    return 0;
  }
}

}  // namespace

std::function<std::vector<Batch>()> first_samples_of(std::vector<const Dataset*> datasets,
                                                     bool may_skip_samples) {
  return [datasets = std::move(datasets), may_skip_samples] {
    std::vector<Batch> samples;
    const auto add = [&](const Dataset* dataset, int64_t index) {
      try {
        samples.push_back(dataset->get_batch(std::array{index}));
      } catch (const Error&) {
        if (!may_skip_samples) throw;
      }
    };
    for (const auto* dataset : datasets) {
      if (!dataset || dataset->size() == 0) continue;
      add(dataset, 0);
      if (const auto longest = longest_of(*dataset, may_skip_samples)) add(dataset, longest);
    }
    return samples;
  };
}

}  // namespace lockstep::trainer
