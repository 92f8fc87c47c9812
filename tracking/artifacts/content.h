// Finds, hashes and copies files of any size in bounded memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tracking/artifacts/artifact.h"
#include "tracking/artifacts/store.h"

namespace lockstep::tracking {

struct FileContent {
  std::string sha256;
  uint64_t size = 0;
  bool operator==(const FileContent&) const = default;
};

// Throws Config if `path` is a symbolic link or not a regular file, Environment if it cannot be
// read.
FileContent read_content(const std::filesystem::path& path);

// Copies to `destination`, which must not exist, with the given mode (less the umask), and syncs
// it; shares blocks if the file system supports that. Throws as above, and then removes
// `destination`.
void copy_content(const std::filesystem::path& source, const std::filesystem::path& destination,
                  unsigned mode);

// Creates `destination` as a hard link. False if the file system does not allow it.
bool link_content(const std::filesystem::path& source, const std::filesystem::path& destination);

// The files of `draft`, by path. Throws Config for symbolic links, devices, invalid and duplicate
// paths, and if there are no files.
std::vector<ArtifactSource> find_sources(const ArtifactDraft& draft);

// "<prefix><random>": a name that is unique across processes.
std::string unique_name(const std::string& prefix);

}  // namespace lockstep::tracking
