// Where nodes have disks of their own, the checkpoints are on that of rank 0. The other nodes keep
// a note of it, <run>/checkpoints-elsewhere.json, so that a job whose first node was replaced does
// not begin anew without a word.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/world.h"

namespace lockstep::trainer {

struct CheckpointNote {
  std::string host, directory;  // of the checkpoints; empty: all ranks are on one node
};

// Collective: where the main rank writes its `checkpoints`.
CheckpointNote locate_checkpoints(World& world, const std::filesystem::path& checkpoints);

// Keeps the note beside `checkpoints` of this node, unless these are what it sees. Throws
// Environment.
void keep_checkpoint_note(const std::filesystem::path& checkpoints, const CheckpointNote& note,
                          int64_t step);

// Collective, when the main rank has no checkpoint of the run: throws Config where a node has a
// note of one.
void refuse_to_begin_anew(World& world, const std::filesystem::path& checkpoints);

}  // namespace lockstep::trainer
