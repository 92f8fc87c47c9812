// A content-addressed store: files named by their SHA-256, each stored once:
// <directory>/ab/abcdef...
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tracking/artifacts/artifact.h"
#include "tracking/artifacts/store.h"

namespace lockstep::tracking {

class Blobs {
 public:
  explicit Blobs(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Adds the content of a file, durably. Writes nothing if it is already stored.
  ArtifactFile add(const ArtifactSource& source, ArtifactDraft::Transfer transfer) const;

  // Throws Config if `sha256` is not a SHA-256.
  std::filesystem::path path_of(const std::string& sha256) const;

  // Why the stored content of `file` is missing or corrupt, or nullopt.
  std::optional<std::string> problem_of(const ArtifactFile& file) const;

  // Blobs that are not in `needed`, and temporary files of interrupted calls. Ignores other files.
  // Requires that no process adds blobs.
  std::vector<std::filesystem::path> garbage(const std::set<std::string>& needed) const;

 private:
  bool has(const std::string& sha256, uint64_t size) const;

  std::filesystem::path directory_;
};

}  // namespace lockstep::tracking
