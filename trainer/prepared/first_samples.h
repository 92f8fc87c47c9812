// The samples that a model is tried on before ranks connect.
#pragma once

#include <functional>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::trainer {

// Returns the first sample of each non-empty dataset, and its longest one if samples differ in shape and
// the dataset has lengths; null is allowed. With `may_skip_samples`, skips samples that cannot be loaded.
std::function<std::vector<Batch>()> first_samples_of(std::vector<const Dataset*> datasets,
                                                     bool may_skip_samples);

}  // namespace lockstep::trainer
