// Hive-style partitioned Parquet or Arrow files, as written by Hive, Spark and pandas:
// year=2023/month=1/a.parquet. The partition keys are additional columns. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/table/columnar_file.h"

namespace lockstep::formats {

// A file and its partition keys, outermost directory first.
struct PartitionFile {
  std::filesystem::path path;
  std::vector<std::pair<std::string, std::string>> keys;
  // If they are known, as by an index.
  std::optional<int64_t> rows = std::nullopt, bytes = std::nullopt;
  bool is_packed = false;  // compressed as a whole: it has no access to single rows
};

// A column of all files, as an index says.
struct IndexedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::Unknown;
  std::string encoding;  // for messages
};

// `path` itself if it is a file, otherwise the files with these extensions in this directory and its
// key=value subdirectories, sorted by path. Throws Config if there are none or their keys differ;
// Environment if a directory cannot be listed.
std::vector<PartitionFile> partition_files(const std::string& path,
                                           const std::vector<std::string>& extensions);

// Opens files and adds their keys as columns: numeric if all values are numbers, otherwise text.
// __HIVE_DEFAULT_PARTITION__ is a missing value.
//
// Thread: const functions are safe to call from several threads concurrently.
class PartitionedFiles {
 public:
  using Open = std::function<std::unique_ptr<ColumnarFile>(const std::filesystem::path&)>;
  PartitionedFiles(std::vector<PartitionFile> files, Open open_file,
                   std::vector<IndexedColumn> columns = {});

  const std::vector<PartitionFile>& files() const { return files_; }
  // Empty if there is no index.
  const std::vector<IndexedColumn>& columns() const { return columns_; }
  // Throws as `open_file`, and Config for a key that is also a column of the file.
  std::unique_ptr<ColumnarFile> open(size_t number) const;

 private:
  std::vector<PartitionFile> files_;
  Open open_file_;
  std::vector<IndexedColumn> columns_;
  std::vector<bool> keys_are_text_;
};

}  // namespace lockstep::formats
