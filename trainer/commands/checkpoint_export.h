// Writes a directory in Hugging Face's layout from a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace lockstep::trainer {

// Shows a line about work that takes long.
using ShowProgress = std::function<void(const std::string& line)>;

struct ExportOptions {
  std::filesystem::path checkpoints;  // of the run
  int64_t step = 0;
  std::filesystem::path out;  // a directory that is missing or empty
  bool merge = false;         // adapters into the weights of the base model
  ShowProgress show = {};     // empty: not shown
};

// Verifies the checkpoint, and writes a model for from_pretrained(), or with adapters that are not
// merged, a directory for PeftModel.from_pretrained(). `out` appears when all of it is on disk.
// Returns a description. Throws Config (no such model, a target that is not empty, a base model that
// has changed), Environment (corrupt checkpoint, full disk).
std::string export_checkpoint(const ExportOptions& options);

}  // namespace lockstep::trainer
