// Artifacts (checkpoints, data sets, reports) with versions, next to the runs:
//   <store>/blobs/ab/abcdef...     contents, named by their SHA-256, each stored once
//   <store>/<name>/v3.json         the manifest of a version (manifest.h)
//   <store>/<name>/aliases.json    the index: the versions and the aliases
//   <store>/lock, <store>/.blobs-lock
//
// Several processes, also on several hosts, may use a store concurrently: changes are made under
// flock(lock); publishers share .blobs-lock, which gc() takes exclusively. A kill at any point
// leaves the old or the new state, and at most files that gc() removes: a version exists once it is
// in the index.
//
// Errors of all calls: Config for invalid names, references and files; Environment for disk errors,
// a lock that is not free in time, and a corrupt store (names the file).
// Thread: one per object; there may be several objects for a store.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tracking/artifacts/artifact.h"

namespace lockstep::tracking {

struct ArtifactSource {
  std::string path;              // in the artifact
  std::filesystem::path source;  // a file; symbolic links are not followed
};

struct ArtifactDraft {
  std::string name;
  std::string type = "file";  // like a name: "model", "dataset"; the same for all versions
  // All files below a directory (symbolic links and devices are Config errors), or one file under
  // its own name. May be empty if `files` is not.
  std::filesystem::path source;
  std::vector<ArtifactSource> files;  // in addition
  std::vector<std::string> aliases;   // besides "latest"
  Json metadata = Json::object();
  std::optional<std::string> made_by;  // the id of an entry in the list of runs
  // Link: hard-links files that are never modified again, such as checkpoints, into the store if
  // possible, otherwise copies.
  enum class Transfer { Copy, Link } transfer = Transfer::Copy;
};

struct ArtifactGarbage {
  std::vector<std::filesystem::path> paths;  // relative to the store
  uint64_t bytes = 0;
};

class ArtifactStore {
 public:
  // For a run: <run directory>/../artifacts. Nothing is created before the first publish().
  explicit ArtifactStore(std::filesystem::path directory,
                         std::chrono::milliseconds lock_timeout = std::chrono::minutes(1));

  // Adds a version, which becomes "latest". If the content equals an existing version, that version
  // gets the aliases, including "latest", and keeps its metadata. Reads in blocks: bounded memory
  // for any size.
  Artifact publish(const ArtifactDraft& draft) const;

  // `reference`: NAME (its latest), NAME:ALIAS, NAME:v3 or NAME@DIGEST (at least 8 digits). Throws
  // Config, which suggests the nearest name, if there is none.
  Artifact find(const std::string& reference) const;

  // All versions, by name and version. `problems`: gets one line per version that cannot be read,
  // which is skipped; if null, throws.
  std::vector<Artifact> list(std::vector<std::string>* problems = nullptr) const;

  // Adds `run_id` to the users of this version, once.
  void record_use(const Artifact& artifact, const std::string& run_id) const;

  // "latest" is maintained automatically and cannot be set or removed.
  void set_alias(const Artifact& artifact, const std::string& alias) const;
  void remove_alias(const std::string& name, const std::string& alias) const;

  // The path of a file's content; read-only.
  std::filesystem::path blob(const ArtifactFile& file) const;

  // Creates the directory `destination` with copies of all files, atomically. Throws Config if it
  // exists, even as a dangling link; Environment if the content is corrupt.
  void get(const Artifact& artifact, const std::filesystem::path& destination) const;

  // Reads every file of the artifact: one line per file that is missing or corrupt.
  std::vector<std::string> verify(const Artifact& artifact) const;

  // Removes blobs that no version needs, and temporary files of interrupted processes. `dry_run`:
  // only lists them. Removes nothing if a version cannot be read, since it may need any of them.
  ArtifactGarbage gc(bool dry_run) const;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::chrono::milliseconds lock_timeout_;
};

}  // namespace lockstep::tracking
