// Writes the first batch that a run would train on, for programs that need its fields and shapes.
#pragma once

#include <filesystem>

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Writes the fields of rank 0's first batch as safetensors, in the order of the dataset. `path`
// must not exist. Throws Config if it does, and as training would; Environment when the file cannot be
// written.
void write_first_batch(const PreparedRun& run, const std::filesystem::path& path);

}  // namespace lockstep::trainer
