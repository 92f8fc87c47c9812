// What a run file's data are, before anything is trained on them.
#pragma once

#include <filesystem>
#include <string>

#include "data/sampling/batch_plan.h"
#include "trainer/config/run_config.h"

namespace lockstep {

struct InspectOptions {
  RankCounts ranks;             // that would train
  std::filesystem::path sheet;  // a PNG of the first images in the order of training; empty: none
};

// A report for people: of the training and the evaluation set sizes, fields, shapes and types,
// balance of the classes, batches and samples per rank, and how fast the loader alone is (some
// seconds of it are run). Throws Config as a training would, and for a sheet of data that are no
// images; Environment when the sheet cannot be written.
std::string inspect_data(const RunConfig& config, const InspectOptions& options);

}  // namespace lockstep
