// The names and versions of a store: reads and writes <name>/v3.json and <name>/aliases.json. Does
// not lock: writers hold the store's lock.
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

  std::vector<std::string> names() const;  // with at least one version, ascending

  // nullopt if there is no such name. Throws Config if `name` is not a valid name.
  std::optional<ArtifactIndex> read_index(const std::string& name) const;
  // Throws Environment if it cannot be read or differs from the index.
  Artifact read(const std::string& name, const ArtifactIndex& index, int version) const;

  // Throws Config, which suggests the nearest name.
  Artifact find(const std::string& reference) const;

  // Durable. Creates the name's directory.
  void write(const Artifact& artifact) const;
  void write_index(const std::string& name, const ArtifactIndex& index) const;

  // Versions that are not in an index, and temporary files of interrupted calls. Requires that no
  // process writes.
  std::vector<std::filesystem::path> garbage() const;

 private:
  std::filesystem::path directory_of(const std::string& name) const;

  std::filesystem::path store_;
};

// Throws Config if `name` is not a valid artifact name.
void verify_artifact_name(const std::string& name);

}  // namespace lockstep::tracking
