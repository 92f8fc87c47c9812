// `lockstep ckpt export`: writes the weights of a checkpoint, or the model with them, for other programs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::trainer {

// Shows a line about work that takes long.
using ShowProgress = std::function<void(const std::string& line)>;

enum class ExportFormat { HuggingFace, Safetensors, Aoti, Pt2 };
constexpr auto choices(ExportFormat) { return std::array{"hf", "safetensors", "aoti", "pt2"}; }

struct ExportOptions {
  std::filesystem::path checkpoints;  // of the run
  int64_t step = 0;
  std::filesystem::path out;  // hf: a directory that is missing or empty; else a new file
  std::optional<ExportFormat>
      format;              // none: hf if the checkpoint has that layout, else safetensors
  bool merge = false;      // of hf: adapters into the weights of the base model
  std::string package;     // of aoti, pt2 and merge: instead of the one that the checkpoint names
  ShowProgress show = {};  // empty: not shown
};

// Verifies the checkpoint and writes its averaged weights, if it has some, else its weights:
//   hf           a model for from_pretrained(), or with adapters that are not merged, a directory for
//                PeftModel.from_pretrained()
//   safetensors  one file, with the names of the checkpoint and metadata about the run
//   aoti, pt2    the evaluation graph of a compiled package: replaces the process with
//                `lockstep-compile export`, and returns only by throwing
// `out` appears when all of it is on disk. Returns a description. Throws Config (no such model, a
// target that exists, a base model that has changed), Environment (corrupt checkpoint, full disk, no
// lockstep-compile).
std::string export_checkpoint(const ExportOptions& options);

}  // namespace lockstep::trainer
