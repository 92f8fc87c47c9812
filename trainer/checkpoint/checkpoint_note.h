// If nodes have separate disks, the checkpoints are on rank 0's node. The other nodes keep a note
// of that, <run>/checkpoints-elsewhere.json, so that a job whose first node was replaced does not
// silently start from scratch.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/world.h"

namespace lockstep::trainer {

struct CheckpointNote {
  std::string host, directory;  // of the checkpoints; empty: all ranks are on one node
};

// Collective: returns where the main rank writes its `checkpoints`.
CheckpointNote locate_checkpoints(World& world, const std::filesystem::path& checkpoints);

// Writes the note next to `checkpoints` of this node, unless this node sees the checkpoints. Throws
// Environment.
void write_checkpoint_note(const std::filesystem::path& checkpoints, const CheckpointNote& note,
                           int64_t step);

// Collective, called when the main rank has no checkpoint of the run: throws Config if a node has a
// note of one.
void verify_no_checkpoint_elsewhere(World& world, const std::filesystem::path& checkpoints);

}  // namespace lockstep::trainer
