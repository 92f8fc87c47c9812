// Checkpoints as artifacts: versions of `<run name>-model` in the store beside the runs, for people
// to find by alias and for sinks to upload.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/tracker.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

struct CheckpointToPublish {
  std::filesystem::path run_dir;  // of the job
  std::string run_name;
  Position position;
  std::map<std::string, double> evaluation;  // of the weights in it; may be empty
};

struct Published {
  std::optional<ArtifactUse> artifact;
  std::string problem;  // why there is none
};

// Links the files of a checkpoint that is on the disk into the store. The alias "best" goes to the
// version with the lowest eval/loss of all runs of that name. Reads every byte once for its digest.
// Any thread, one at a time.
Published publish_checkpoint(const CheckpointToPublish& checkpoint) noexcept;

// Records it; a problem as a warning: the checkpoint itself is there.
void record(const Published& published, Tracker& tracker) noexcept;

}  // namespace lockstep::trainer
