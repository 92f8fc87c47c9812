// Builds the sampler's options from the run file and from the weights and lengths that the dataset
// provides.
#pragma once

#include "data/sampling/batch_plan.h"
#include "data/sampling/sampler.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// `batches`: the rule of a BatchPlan. Throws Config: the dataset does not provide the labels,
// weights or lengths that the setting needs, or the number of class_weights differs from that of
// classes. Opens all shards if the order has no groups of them.
SamplerOptions sampler_options(const LoaderConfig& config, const Dataset& dataset, uint64_t seed,
                               const BatchRule& batches);

// Fetches and opens all shards, by info.labels(), of a dataset with info.fetch_ahead. For orders whose
// first batches need most of them: it takes longer than a loader may wait for a batch.
void open_all_shards(const SampleInfo& info);

// Whether all labels are class numbers: integers from 0 to 2^20 - 1.
bool are_classes(const std::vector<double>& labels);

// The number of samples of each class. Throws Config unless all labels are class numbers.
std::vector<int64_t> count_classes(const std::vector<double>& labels);

}  // namespace lockstep::data
