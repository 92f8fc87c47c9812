// What a catalog knew of the runs that are over, kept in a file for the next start: a cache, which
// anybody may delete. Every entry says from which state of the run's files it was made, and counts
// for as long as nobody has looked at them.
//
// The file: "LSRUNIDX", u32 3, then blocks of u32 length | u32 CRC32C of the payload | payload. The
// first block has the version of Lockstep and the texts that the others name by their place; each
// of the others is a run. What another version wrote is passed over.
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
  RunSummary summary;  // but for dir, version and changed
  uint64_t stamp = 0;  // of the files that it was made from
};

// <runs>/.dashboard/index
std::filesystem::path catalog_index_path(const std::filesystem::path& runs);

// Makes its directory, and replaces the file at once. Throws Environment.
void write_catalog_index(const std::filesystem::path& path,
                         const std::vector<std::pair<RunSnapshot, uint64_t>>& runs,
                         const NameTable& names);

// Removes what processes left that ended while they wrote one. Before the first own one.
void remove_unfinished_indexes(const std::filesystem::path& path);

// Every entry that is whole. None where there is no such file, or it is another version's. Never
// throws for what it holds.
std::vector<IndexedRun> read_catalog_index(const std::filesystem::path& path, NameTable& names);

class IndexWriter;

// One entry, as the file has it. `places`: the numbers of the texts that it names; nullopt for
// bytes that are not exactly one.
std::string encode_indexed_run(IndexWriter& writer, const RunSummary& run, uint64_t stamp);
std::optional<IndexedRun> decode_indexed_run(std::string_view bytes,
                                             const std::vector<uint32_t>& places);

}  // namespace lockstep::catalog
