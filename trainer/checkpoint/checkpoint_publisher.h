// Publishes checkpoints as artifacts: versions of `<run name>-model` in the store next to the runs,
// which users find by alias and sinks upload.
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
  std::map<std::string, double> evaluation;  // of its weights; may be empty
};

struct Published {
  std::optional<ArtifactUse> artifact;
  std::string problem;  // why there is none
};

// Links the files of a checkpoint on disk into the store. The alias "best" is given to the version
// with the lowest eval/loss of all runs of that name. Reads every byte once for its digest. Any
// thread, one at a time.
Published publish_checkpoint(const CheckpointToPublish& checkpoint) noexcept;

// Records the artifact, or a problem as a warning: the checkpoint itself exists.
void record(const Published& published, Tracker& tracker) noexcept;

}  // namespace lockstep::trainer
