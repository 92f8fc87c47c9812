// A safetensors file of one tensor, written row by row so that it need not fit into memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::trainer {

// The file appears under its name once all of it is on disk. Until then it is unnamed (O_TMPFILE)
// where the file system supports that, else its name ends in ".tmp-<process>", and is left over
// only if the process is killed.
class RowsFile {
 public:
  // Throws Config when `path` is a directory, Environment when no file can be created there.
  explicit RowsFile(std::filesystem::path path);
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  // Called once, first: the tensor's name, type and shape. Reserves all of the space. Throws
  // Environment when there is too little.
  void begin(const std::string& name, at::ScalarType type, const std::vector<int64_t>& shape);

  // Appends `rows`, a CPU tensor of begin()'s type. Throws Environment.
  void write(const at::Tensor& rows);

  // Called after the last row: syncs the file and gives it its name. Throws Environment.
  void finish();

 private:
  std::filesystem::path path_, temporary_;  // temporary_: empty while the file has no name
  FileDescriptor file_;
};

}  // namespace lockstep::trainer
