// What a run file's data are, before anything is trained on them.
#pragma once

#include <filesystem>
#include <string>

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// A report for people: of the training and the evaluation set sizes, fields, shapes and types,
// balance of the classes, batches and samples per rank, and how fast the loader alone is (some
// seconds of it are run). `sheet`: where a PNG of the first images in the order of training goes;
// empty: none. Throws Config as a training would, and for a sheet of data that are no images;
// Environment when the sheet cannot be written.
std::string inspect_data(const PreparedRun& run, const std::filesystem::path& sheet);

}  // namespace lockstep::trainer
