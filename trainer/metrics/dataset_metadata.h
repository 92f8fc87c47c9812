// The metadata of datasets, verified.
#pragma once

#include <string>

#include "data/sampling/split.h"
#include "lockstep/dataset.h"

namespace lockstep::trainer {

// dataset.metadata(): null or an object, in which bytes that are not UTF-8 are replaced. `name`:
// data.train or data.eval. Throws Config if it is another value, or if "classes" or "vocabulary" have
// another type than dataset.h names.
Json metadata_of(const Dataset& dataset, const std::string& name);

// The number of tokens that the tokenizers of the datasets can produce; 0: there are none.
int64_t vocabulary_of(const data::TrainAndEval& data);

}  // namespace lockstep::trainer
