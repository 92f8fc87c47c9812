// Arrow files in directories, also in those of Hugging Face's Dataset.save_to_disk(). No LibTorch.
#pragma once

#include <string>
#include <vector>

#include "formats/table/hive_partitions.h"

namespace lockstep::formats {

// The file names of the shards, in their order, in the text of a state.json. Only plain file names
// are accepted: none leaves the directory. `name`: for messages. Throws Config.
std::vector<std::string> parse_dataset_state(const std::string& text, const std::string& name);

// `path` itself if it is a file; the shards of a directory with state.json; otherwise its *.arrow,
// *.feather and *.ipc files, as partition_files(). Throws as that, and Config: a DatasetDict, naming
// its splits; a cache of datasets, which can mix splits and results of map().
std::vector<PartitionFile> arrow_files(const std::string& path);

}  // namespace lockstep::formats
