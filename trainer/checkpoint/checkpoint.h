// Checkpoints on disk: <run dir>/checkpoints/<step>/ with
//   model.safetensors      parameters, then buffers, in the module's order; without the base model
//                          that the manifest refers to (trainer/checkpoint/base_weights.h)
//   optimizer.safetensors  the optimizer's state
//   ema.safetensors        with train.ema: the average of model.safetensors, in the same form
//   rng.safetensors        random generator states of each rank: "rank.0" ..., of the CPU; with
//                          GPUs also "rank.0.device" ...
//   manifest.json          the head and a CRC-32C per tensor, protected by its own CRC-32C
// Written by two ranks, model and optimizer are in two files each, in the usual sharded layout:
//   model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
//   model.safetensors.index.json    maps tensors to files
//   (formats/safetensors_index.h)
// A directory appears under its final name only once all of it is on disk: a kill at any point
// leaves the old checkpoints and possibly a directory ".tmp-...", which the next save removes.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "trainer/checkpoint/checkpoint_head.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {

struct Checkpoint {
  CheckpointHead head;
  NamedTensors model, optimizer, rng;
  NamedTensors ema;  // with head.ema_updates above 0: the averaged weights
  // Tensors of model and average that are saved from the main rank: buffers. All other tensors of
  // them, and the optimizer state, are the same on all ranks.
  std::set<std::string> main_only;
};

// The tensor files of a checkpoint, one per list of tensors.
struct TensorFile {
  const char* name;
  NamedTensors Checkpoint::*tensors;
  bool is_shared;  // several ranks can write it, one file each
};
inline constexpr std::array kTensorFiles = {TensorFile{"model", &Checkpoint::model, true},
                                            TensorFile{"ema", &Checkpoint::ema, true},
                                            TensorFile{"optimizer", &Checkpoint::optimizer, true},
                                            TensorFile{"rng", &Checkpoint::rng, false}};

// Prefix of directories that are not complete checkpoints.
inline constexpr const char* kTemporaryPrefix = ".tmp-";

// One of the `count` shares in which a checkpoint is written.
struct ShareOptions {
  int index = 0, count = 1;
  std::string attempt;  // a unique name, common to the writers of this checkpoint
};

// Returns the content of a tensor of the meta device, in the list kTensorFiles.name.
using FetchListed = std::function<at::Tensor(const std::string& list, const std::string& name)>;

// Writes and syncs the tensors of one share, made by take_share(). The first share removes leftovers
// of interrupted saves. Returns the input of commit_checkpoint(). Throws Environment (full disk,
// ...), after removing what the other shares have written too.
nlohmann::ordered_json write_share(const std::filesystem::path& checkpoints,
                                   const Checkpoint& share, const ShareOptions& options,
                                   const FetchListed& fetch = {});

// Turns the shares into a checkpoint, once all are written. `written`: the results of
// write_share(), in the order of the shares. `exported`: what it contains for other
// programs. A checkpoint of the same step is replaced atomically. Throws
// Environment, leaving existing checkpoints unchanged.
void commit_checkpoint(const std::filesystem::path& checkpoints, const CheckpointHead& head,
                       const std::vector<nlohmann::ordered_json>& written,
                       const ShareOptions& options, const ExportedFiles& exported = {});

// Adds an evaluation to the checkpoint of its step, which was written before it: replaces what the
// manifest says of evaluation and early stopping by what `head` says. Throws Environment.
void add_evaluation(const std::filesystem::path& checkpoints, const CheckpointHead& head);

// Part of commit_checkpoint(): writes what other programs read, from the tensors of the model that
// are in `directory`. `files`: the results of write_share() by file. Throws Environment.
void write_exported_files(const std::filesystem::path& directory, const ExportedFiles& exported,
                          const nlohmann::ordered_json& files);

// Called with the bytes that were written since the last call.
using OnBytes = std::function<void(uint64_t bytes)>;

// Copies files to `directory`, of any size, and syncs them. Throws Environment.
void copy_files(const std::vector<std::filesystem::path>& files,
                const std::filesystem::path& directory, const OnBytes& on_bytes = {});

// Steps that have a checkpoint, ascending; empty when the directory does not exist.
std::vector<int64_t> list_checkpoints(const std::filesystem::path& checkpoints);

// Reads and verifies a checkpoint, without its base model (read_base()). Throws Environment, naming file and tensor, when anything is
// missing or corrupt; Config if another version of Lockstep wrote it in a format that this one does
// not read.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoints, int64_t step);

// Adds the weights of the base model that a checkpoint refers to, to its model and its average,
// from `elsewhere` if they are there (empty: nowhere else). head.base then has the path of the file
// that was read. As read_base(); throws Config.
void add_base(Checkpoint& checkpoint, const std::filesystem::path& elsewhere = {});

// Reads the latest valid checkpoint. Adds to `rejected` one line for each later one that is not
// valid. Returns nullopt when there are no checkpoints. Throws Environment when none is valid,
// Config when all are of other versions.
std::optional<Checkpoint> read_last_good_checkpoint(const std::filesystem::path& checkpoints,
                                                    std::vector<std::string>& rejected);

// Reads the head only; the tensors are not verified. Throws as read_checkpoint().
CheckpointHead read_checkpoint_head(const std::filesystem::path& checkpoints, int64_t step);

// Renames the directory first, so that a kill leaves no partial checkpoint under a step's name.
// Throws Environment.
void remove_checkpoint(const std::filesystem::path& checkpoints, int64_t step);

}  // namespace lockstep::trainer
