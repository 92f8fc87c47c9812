// Checkpoints on disk: <run dir>/checkpoints/<step>/ with
//   model.safetensors      parameters, then buffers, in the module's order
//   optimizer.safetensors  the optimizer's state
//   ema.safetensors        with train.ema: the average of model.safetensors, in the same form
//   rng.safetensors        the CPU generator's state of each rank, "rank.0" ...
//   manifest.json          the head and a CRC-32C per tensor, under a CRC-32C of its own
// A directory appears under its final name only when all of it is on the disk: a kill at any point
// leaves the old checkpoints and perhaps a directory ".tmp-...", which the next save removes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/checkpoint_head.h"
#include "trainer/optimizer.h"

namespace lockstep {

struct Checkpoint {
  CheckpointHead head;
  NamedTensors model, optimizer, rng;
  NamedTensors ema = {};  // empty: none
};

// Throws Environment (full disk, ...), leaving what was there. A checkpoint of the same step is
// replaced atomically.
void write_checkpoint(const std::filesystem::path& checkpoints, const Checkpoint& checkpoint);

// Steps that have a checkpoint, ascending; empty when the directory does not exist.
std::vector<int64_t> list_checkpoints(const std::filesystem::path& checkpoints);

// Reads and verifies one. Throws Environment, naming file and tensor, when anything is missing or
// damaged.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoints, int64_t step);

// The latest one that verifies. `rejected` gets one line for each later one that does not.
// Throws Environment when there are some and none verifies; nullopt when there is none.
std::optional<Checkpoint> read_last_good_checkpoint(const std::filesystem::path& checkpoints,
                                                    std::vector<std::string>& rejected);

// Once the checkpoint of `newest` is written: removes those before it but for the latest
// `keep_last`, it included, and those of later steps, which an earlier run of the directory left
// that was begun anew, or resumed before them. Throws Environment.
void prune_checkpoints(const std::filesystem::path& checkpoints, int64_t newest, int64_t keep_last);

}  // namespace lockstep
