// Distributes a checkpoint over several writing ranks.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/world.h"
#include "trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {

// The ranks that write the checkpoints of a run.
struct CheckpointWriters {
  ShareOptions share;               // of this rank, if it writes
  bool is_writer = false;           // whether this rank writes
  std::vector<int> excluded_ranks;  // ranks that do not see the directory
};

// Collective. Without `all`, only the main rank writes; else every rank that sees the main rank's
// `checkpoints`, which is created if missing. Found out with a probe file, since nodes may have
// separate disks under the same path. Throws Environment.
CheckpointWriters find_writers(World& world, const std::filesystem::path& checkpoints, bool all);

// Returns share `index` of `count` of `checkpoint`: whole tensors, in their order. Tensors that are
// the same on all ranks are assigned, largest first, to the share with the fewest bytes so far;
// those of the main rank (random states, `main_only`) to the first share.
Checkpoint take_share(const Checkpoint& checkpoint, int index, int count);

}  // namespace lockstep::trainer
