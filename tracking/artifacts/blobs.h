// Contents named by their SHA-256, each kept once: <directory>/ab/abcdef...
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

  // Takes the content of a file in, durably; nothing is written where it is there already.
  ArtifactFile add(const ArtifactSource& source, ArtifactDraft::Transfer transfer) const;

  // Throws Config when `sha256` is none.
  std::filesystem::path path_of(const std::string& sha256) const;

  // Why the content of `file` is not what it should be, or nullopt.
  std::optional<std::string> problem_of(const ArtifactFile& file) const;

  // Contents that are not among `needed`, and what interrupted calls left. Other files are not
  // ours. Nobody adds meanwhile.
  std::vector<std::filesystem::path> garbage(const std::set<std::string>& needed) const;

 private:
  bool has(const std::string& sha256, uint64_t size) const;

  std::filesystem::path directory_;
};

}  // namespace lockstep::tracking
