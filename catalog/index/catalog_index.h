// A cache file of the summaries of finished runs, for the next start of a catalog; safe to delete.
// Each entry has a stamp of the run's files, and is used until the files are checked.
//
// The file: "LSRUNIDX", u32 3, then blocks of u32 length | u32 CRC32C of the payload | payload. The
// first block has the version of Lockstep and the texts that the others refer to by index;
// each other block is a run. Files of other versions are ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/index/run_summary.h"

namespace lockstep::catalog {

struct IndexedRun {
  RunSummary summary;  // except dir, version and changed
  uint64_t stamp = 0;  // of the files that it was read from
};

// <runs>/.dashboard/index
std::filesystem::path catalog_index_path(const std::filesystem::path& runs);

// Creates the directory, and replaces the file atomically. Throws Environment.
void write_catalog_index(const std::filesystem::path& path,
                         const std::vector<std::pair<RunSnapshot, uint64_t>>& runs,
                         const NameTable& names);

// Removes temporary files of processes that died while writing. Call it before the first write.
void remove_unfinished_indexes(const std::filesystem::path& path);

// All intact entries; none if the file does not exist or is of another version. Never throws for
// invalid content.
std::vector<IndexedRun> read_catalog_index(const std::filesystem::path& path, NameTable& names);

class IndexWriter;

// One entry in the format of the file. `places`: the numbers of the texts that it refers to;
// nullopt unless the bytes are exactly one entry.
std::string encode_indexed_run(IndexWriter& writer, const RunSummary& run, uint64_t stamp);
std::optional<IndexedRun> decode_indexed_run(std::string_view bytes,
                                             const std::vector<uint32_t>& places);

}  // namespace lockstep::catalog
