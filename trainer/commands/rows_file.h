// A safetensors file of one tensor that is written row by row, so that it need not fit into memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::trainer {

// The file appears under its name when all of it is on the disk. Until then it has no name at all
// where the file system can do that, else one that ends in ".tmp-<process>", which only a kill
// leaves behind.
class RowsFile {
 public:
  // Throws Config when `path` is a directory, Environment when no file can be made there.
  explicit RowsFile(std::filesystem::path path);
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  // Once, first: the tensor's name, type and shape. Reserves all of the space. Throws Environment
  // when there is too little.
  void begin(const std::string& name, at::ScalarType type, const std::vector<int64_t>& shape);

  // The next rows: a CPU tensor of begin()'s type. Throws Environment.
  void write(const at::Tensor& rows);

  // When every row is written: syncs, and gives the file its name. Throws Environment.
  void finish();

 private:
  std::filesystem::path path_, temporary_;  // the second: empty while the file has no name
  FileDescriptor file_;
};

}  // namespace lockstep::trainer
