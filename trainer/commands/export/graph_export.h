// Exports the evaluation graph of a compiled package with the weights of a checkpoint.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::trainer {

struct GraphExport {
  std::filesystem::path checkpoint;  // its directory
  std::string format;                // of lockstep-compile: "aoti" or "pt2"
  std::filesystem::path out;         // a file that does not exist; its directory is made
  std::string package;               // empty: the one that the checkpoint names
};

// Replaces this process with `lockstep-compile export`, which is in the Python environment of
// the loaded LibTorch or on the PATH. Throws Config if the checkpoint names no package, Environment
// if there is no lockstep-compile or the directory of `out` cannot be made.
[[noreturn]] void export_graph(const GraphExport& wanted);

}  // namespace lockstep::trainer
