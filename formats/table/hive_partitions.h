// Hive-style partitioned Parquet files, as written by Hive, Spark and pandas:
// year=2023/month=1/a.parquet. The partition keys are additional columns. No LibTorch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/table/parquet_file.h"

namespace lockstep::formats {

// A file and its partition keys, outermost directory first.
struct PartitionFile {
  std::filesystem::path path;
  std::vector<std::pair<std::string, std::string>> keys;
};

// `path` itself if it is a file, otherwise the *.parquet files in this directory and its key=value
// subdirectories, sorted by path. Throws Config if there are none or their keys differ; Environment
// if a directory cannot be listed.
std::vector<PartitionFile> parquet_files(const std::string& path);

// Opens the files and adds their keys as columns: numeric if all values are numbers, otherwise
// text. __HIVE_DEFAULT_PARTITION__ is a missing value. Throws as open_parquet_file(), and Config
// for a key that is also a column of the file.
std::vector<std::unique_ptr<ParquetFile>> open_partitions(const std::vector<PartitionFile>& files);

}  // namespace lockstep::formats
