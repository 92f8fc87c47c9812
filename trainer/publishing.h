// Checkpoints as artifacts: versions of `<run name>-model` in the store beside the runs, for people
// to find by alias and for sinks to upload.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tracking/tracker.h"
#include "trainer/position.h"

namespace lockstep {

struct CheckpointToPublish {
  std::filesystem::path run_dir;  // of the job
  std::string run_name;
  Position position;
  std::map<std::string, double> evaluation;  // of the weights in it; may be empty
};

// Links the files of the checkpoint into the store, as the main rank does after the barrier that
// made the checkpoint whole, and records the version. The alias "best" goes to the version with the
// lowest eval/loss of all runs of that name. Reads every byte once for its digest. A
// failure is a warning in the record of the run: the checkpoint itself is there.
void publish_checkpoint(const CheckpointToPublish& checkpoint, Tracker& tracker) noexcept;

}  // namespace lockstep
