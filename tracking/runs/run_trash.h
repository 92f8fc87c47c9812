// Removes files of runs, for delete and gc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lockstep::tracking {

// Bytes of the files at and below `path`; links count as 0.
uint64_t tree_bytes(const std::filesystem::path& path);

// Seconds since 1970 at which `path` itself was modified; 0 if it does not exist.
double changed_at(const std::filesystem::path& path);

// Takes the run off the list immediately, then removes its files. Throws Environment; files that
// could not be removed are left in the trash for gc.
void remove_run(const std::filesystem::path& runs, const std::filesystem::path& run_dir);

// The content of the trash of `runs`.
std::vector<std::filesystem::path> trash_of(const std::filesystem::path& runs);

// Temporary files and directories below `run_dir` that were last modified before `before`.
std::vector<std::filesystem::path> temporaries_of(const std::filesystem::path& run_dir,
                                                  double before);

// Removes `path` recursively. Throws Environment.
void remove_tree(const std::filesystem::path& path);

}  // namespace lockstep::tracking
