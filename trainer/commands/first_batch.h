// The first batch that a run would train on, for programs that must know what its data are like.
#pragma once

#include <filesystem>

#include "data/sampling/batch_plan.h"
#include "trainer/config/run_config.h"

namespace lockstep {

// Writes the fields of rank 0's first batch, as the data section of `config` makes it for `ranks`,
// as safetensors, in the order of the dataset. `path` must not exist. Throws Config as a training
// would, Environment when the file cannot be written.
void write_first_batch(const RunConfig& config, RankCounts ranks,
                       const std::filesystem::path& path);

}  // namespace lockstep
