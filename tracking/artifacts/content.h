// Contents of files: finding, hashing and copying them, whatever their size, with little memory.
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

// Throws Config when `path` is a link or no regular file, Environment when it cannot be read.
FileContent read_content(const std::filesystem::path& path);

// Makes `destination`, which must not exist, a synced copy with the given mode (less the umask);
// shares the blocks where the file system can. Throws as above; then `destination` is gone.
void copy_content(const std::filesystem::path& source, const std::filesystem::path& destination,
                  unsigned mode);

// Makes `destination` another name of the same file. False when the file system does not allow it.
bool link_content(const std::filesystem::path& source, const std::filesystem::path& destination);

// What `draft` names, by path. Throws Config for links, devices, bad paths, paths given twice, and
// when there is nothing.
std::vector<ArtifactSource> find_sources(const ArtifactDraft& draft);

// "<prefix><random>": a name that no other process thinks of.
std::string unique_name(const std::string& prefix);

}  // namespace lockstep::tracking
