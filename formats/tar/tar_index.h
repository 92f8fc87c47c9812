// The index of a folder of tar archives: how many samples each has, so that a reader needs not open them
// all. A JSON file as the package wids writes it: {"shardlist": [{"url": "0.tar", "nsamples": 100,
// "filesize": 4096}, ...]}. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::formats {

inline constexpr const char* kTarIndexName = "index.json";

struct TarShard {
  int64_t samples = 0;
  int64_t bytes = 0;  // 0: unknown
  bool operator==(const TarShard&) const = default;
};
using TarIndex = std::map<std::string, TarShard>;  // by the names of the files

// nullopt: a text without a "shardlist", so not such an index. Throws Config: a shard without a name or a
// number of samples from 1 on, two shards of the same name. `name`: of the index, for messages.
std::optional<TarIndex> parse_tar_index(const std::string& text, const std::string& name);
std::string tar_index_text(const TarIndex& index);

struct IndexedShards {
  std::vector<TarShard> shards;  // empty: there is no index
  std::string index;             // its path, for messages
  bool is_other_file = false;    // there is a file of this name that is not an index
};

// The shards of `files` by the index in their folder. `are_all`: they are all archives of this folder. None
// for a single file, for files in several folders, and if a server does not say whether it has an index.
// Throws Config if the index does not name one of them or, with `are_all`, names others; as
// parse_tar_index().
IndexedShards indexed_shards(const std::vector<std::filesystem::path>& files, bool are_all);

}  // namespace lockstep::formats
