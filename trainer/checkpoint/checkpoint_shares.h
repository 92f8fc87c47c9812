// A checkpoint that several ranks write together: which of them writes which tensors.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/world.h"
#include "trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {

// Who writes the checkpoints of this process's run.
struct CheckpointWriters {
  ShareOptions share;           // of this rank, when it writes
  bool is_one = false;          // whether it does
  std::vector<int> without_it;  // ranks that do not see the directory
};

// Collective. Not `all`: the main rank alone. Else every rank that sees the main rank's
// `checkpoints`, which is made when it is missing: tried out, since nodes may have disks of their
// own under the same path. Throws Environment.
CheckpointWriters find_writers(World& world, const std::filesystem::path& checkpoints, bool all);

// What share `index` of `count` holds of `checkpoint`: whole tensors, in the order that they have
// there. Those that are the same on all ranks go, the largest first, to the share with the fewest
// bytes so far; what only the main rank has right (random states, `of_main`) to the first share.
Checkpoint take_share(const Checkpoint& checkpoint, int index, int count);

}  // namespace lockstep::trainer
