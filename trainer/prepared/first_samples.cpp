#include "trainer/prepared/first_samples.h"

#include <array>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {

std::function<std::vector<Batch>()> first_samples_of(std::vector<const Dataset*> datasets,
                                                     bool may_skip_samples) {
  return [datasets = std::move(datasets), may_skip_samples] {
    constexpr std::array<int64_t, 1> kFirst = {0};
    std::vector<Batch> samples;
    for (const auto* dataset : datasets) try {
        if (dataset && dataset->size() > 0) samples.push_back(dataset->get_batch(kFirst));
      } catch (const Error&) {
        if (!may_skip_samples) throw;
      }
    return samples;
  };
}

}  // namespace lockstep::trainer
