// `lockstep-trainer --inspect-data`: describes the datasets of a run file.
#pragma once

#include <filesystem>
#include <string>

#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Returns a human-readable report on the training and the evaluation set: sizes, fields, shapes and
// types, class balance, batches and samples per rank, and loader throughput (measured for a few
// seconds). `sheet`: path of a PNG contact sheet of the first images in training order, or empty.
// Throws Config as training would, and for a contact sheet of data that are not images; Environment
// when the contact sheet cannot be written.
std::string inspect_data(const PreparedRun& run, const std::filesystem::path& sheet);

}  // namespace lockstep::trainer
