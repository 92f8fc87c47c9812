// Removing a directory of runs' files, as delete and gc do it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lockstep::tracking {

// Bytes of the files at and below `path`; links count nothing.
uint64_t tree_bytes(const std::filesystem::path& path);

// Seconds since 1970 at which `path` itself was changed; 0 when it is not there.
double changed_at(const std::filesystem::path& path);

// The run leaves the list at once, and its files are removed. Throws Environment; when that is
// about the files, gc finds them in the trash.
void remove_run(const std::filesystem::path& runs, const std::filesystem::path& run_dir);

// What is in the trash of `runs`.
std::vector<std::filesystem::path> trash_of(const std::filesystem::path& runs);

// Temporary files and directories below `run_dir` that were last changed before `before`.
std::vector<std::filesystem::path> temporaries_of(const std::filesystem::path& run_dir,
                                                  double before);

// Removes `path` with all that is below it. Throws Environment.
void remove_tree(const std::filesystem::path& path);

}  // namespace lockstep::tracking
