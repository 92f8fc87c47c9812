// From the run file to the order of training: what a dataset knows about its samples, as weights
// and lengths.
#pragma once

#include "data/sampling/batch_plan.h"
#include "data/sampling/sampler.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// `batches`: the rule of a BatchPlan. Throws Config: the dataset does not know the labels, weights
// or lengths that the setting needs, or there are not as many class_weights as classes.
SamplerOptions sampler_options(const LoaderConfig& config, const Dataset& dataset, uint64_t seed,
                               const BatchRule& batches);

// Whether all labels are class numbers: whole, not negative, below 2^20.
bool are_classes(const std::vector<double>& labels);

// How many samples each class has, by its number. Throws Config unless all are class numbers.
std::vector<int64_t> count_classes(const std::vector<double>& labels);

}  // namespace lockstep::data
