// The names and versions of a store: reads and writes <name>/v3.json and <name>/aliases.json. Locks
// nothing: who writes holds the store's lock.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tracking/artifacts/artifact.h"
#include "tracking/artifacts/manifest.h"

namespace lockstep::tracking {

class ArtifactCatalog {
 public:
  explicit ArtifactCatalog(std::filesystem::path store) : store_(std::move(store)) {}

  std::vector<std::string> names() const;  // that have a version, ascending

  // nullopt where there is no such name. Throws Config when `name` can be none.
  std::optional<ArtifactIndex> read_index(const std::string& name) const;
  // Throws Environment when it cannot be read or is another one than the index says.
  Artifact read(const std::string& name, const ArtifactIndex& index, int version) const;

  // Throws Config with the nearest name.
  Artifact find(const std::string& reference) const;

  // Durable. The name's directory is made where there is none.
  void write(const Artifact& artifact) const;
  void write_index(const std::string& name, const ArtifactIndex& index) const;

  // Versions that no index knows, and what interrupted calls left. Nobody writes meanwhile.
  std::vector<std::filesystem::path> garbage() const;

 private:
  std::filesystem::path directory_of(const std::string& name) const;

  std::filesystem::path store_;
};

// Throws Config when `name` can be no artifact's.
void verify_artifact_name(const std::string& name);

}  // namespace lockstep::tracking
