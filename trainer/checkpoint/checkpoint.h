// Checkpoints on disk: <run dir>/checkpoints/<step>/ with
//   model.safetensors      parameters, then buffers, in the module's order
//   optimizer.safetensors  the optimizer's state
//   ema.safetensors        with train.ema: the average of model.safetensors, in the same form
//   rng.safetensors        the generators' states of each rank: "rank.0" ..., of the CPU; with GPUs
//                          also "rank.0.device" ...
//   manifest.json          the head and a CRC-32C per tensor, under a CRC-32C of its own
// Written by two ranks, model and optimizer are in two files each, as large models are elsewhere:
//   model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
//   model.safetensors.index.json    which tensor is in which
//   (trainer/checkpoint/safetensors_index.h)
// A directory appears under its final name only when all of it is on the disk: a kill at any point
// leaves the old checkpoints and perhaps a directory ".tmp-...", which the next save removes.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lockstep/optimizer.h"
#include "trainer/checkpoint/checkpoint_head.h"

namespace lockstep::trainer {

struct Checkpoint {
  CheckpointHead head;
  NamedTensors model, optimizer, rng;
  NamedTensors ema;  // with head.ema_updates above 0: the averaged weights
  // Of model and average, what only the main rank has as it shall be kept: buffers. Everything else
  // of them and the optimizer is the same on all ranks.
  std::set<std::string> of_main;
};

// What is written beside the manifest, each list of tensors in files of its own.
struct TensorFile {
  const char* name;
  NamedTensors Checkpoint::*tensors;
  bool is_shared;  // ranks can write it together, a file each
};
inline constexpr std::array kTensorFiles = {TensorFile{"model", &Checkpoint::model, true},
                                            TensorFile{"ema", &Checkpoint::ema, true},
                                            TensorFile{"optimizer", &Checkpoint::optimizer, true},
                                            TensorFile{"rng", &Checkpoint::rng, false}};

// Begins the names of directories that are no checkpoints, or not yet.
inline constexpr const char* kTemporaryPrefix = ".tmp-";

// One of `count` parts that a checkpoint is written in, at the same time or not.
struct ShareOptions {
  int index = 0, count = 1;
  std::string attempt;  // a name that these writers have in common, and no others ever had
};

// Writes and syncs the tensors of one share; take_share() makes it. The first one removes what
// interrupted saves left. Returns what commit_checkpoint() must know of it. Throws Environment
// (full disk, ...), removing what the other shares have written too.
nlohmann::ordered_json write_share(const std::filesystem::path& checkpoints,
                                   const Checkpoint& share, const ShareOptions& options);

// When every share is written: makes them a checkpoint. `written`: what write_share() returned, in
// the order of the shares. One of the same step is replaced atomically. Throws Environment, leaving
// what was there.
void commit_checkpoint(const std::filesystem::path& checkpoints, const CheckpointHead& head,
                       const std::vector<nlohmann::ordered_json>& written,
                       const ShareOptions& options);

// Steps that have a checkpoint, ascending; empty when the directory does not exist.
std::vector<int64_t> list_checkpoints(const std::filesystem::path& checkpoints);

// Reads and verifies one. Throws Environment, naming file and tensor, when anything is missing or
// damaged.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoints, int64_t step);

// The latest one that verifies. `rejected` gets one line for each later one that does not.
// Throws Environment when there are some and none verifies; nullopt when there is none.
std::optional<Checkpoint> read_last_good_checkpoint(const std::filesystem::path& checkpoints,
                                                    std::vector<std::string>& rejected);

// What it says beside its tensors, which are not looked at. Throws Environment.
CheckpointHead read_checkpoint_head(const std::filesystem::path& checkpoints, int64_t step);

// Renamed first, so that a kill in the middle leaves no half of a checkpoint under a step's name.
// Throws Environment.
void remove_checkpoint(const std::filesystem::path& checkpoints, int64_t step);

}  // namespace lockstep::trainer
