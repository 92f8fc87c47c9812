// Folders of Parquet files as Hive, Spark and pandas write them: year=2023/month=1/a.parquet. What
// the folders' names say are columns of the rows inside. No LibTorch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/table/parquet_file.h"

namespace lockstep::formats {

// A file, and the keys of the folders that it lies in, outermost first.
struct PartitionFile {
  std::filesystem::path path;
  std::vector<std::pair<std::string, std::string>> keys;
};

// `path` itself, or the *.parquet files in this folder and in its folders that are called
// key=value, by name. Throws Config when there are none, or files of different keys; Environment
// when a folder cannot be listed.
std::vector<PartitionFile> parquet_files(const std::string& path);

// Opens the files; their keys are further columns: of numbers where all their values are numbers,
// else of texts, and __HIVE_DEFAULT_PARTITION__ is a missing value. Throws as open_parquet_file(),
// and Config for a key that is also a column of the file.
std::vector<std::unique_ptr<ParquetFile>> open_partitions(const std::vector<PartitionFile>& files);

}  // namespace lockstep::formats
