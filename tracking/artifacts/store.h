// Artifacts (checkpoints, data sets, reports) with versions, beside the runs:
//   <store>/blobs/ab/abcdef...     contents, named by their SHA-256; each is kept once
//   <store>/<name>/v3.json         the manifest of a version (manifest.h)
//   <store>/<name>/aliases.json    the index: how many versions there are, and what aliases mean
//   <store>/lock, <store>/.blobs-lock
//
// Several processes, also of several hosts, may use one store at the same time: changes are made
// under flock(lock), publishers share .blobs-lock, which gc() has alone. A kill at any point leaves
// the old state or the new one, and at worst files that gc() removes: a version is there as soon as
// the index says so.
//
// Errors, of all calls: Config for names, references and files that are wrong; Environment for a
// disk that fails, a lock that is not free in time, and a damaged store (naming the file).
// Thread: one object belongs to one thread; any number of objects may be for the same store.
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
  std::string path;              // within the artifact
  std::filesystem::path source;  // a file; links are not followed
};

struct ArtifactDraft {
  std::string name;
  std::string type = "file";  // like a name: "model", "dataset"; the same for all versions
  // All files below a directory (a link or a device among them is a Config error), or one file
  // under its own name. May be empty where there are `files`.
  std::filesystem::path source;
  std::vector<ArtifactSource> files;  // in addition
  std::vector<std::string> aliases;   // besides "latest"
  Json metadata = Json::object();
  std::optional<std::string> made_by;  // the id of an entry in the list of runs
  // Link: files that nobody will ever write to again, such as checkpoints, are hard-linked into the
  // store where that is possible, else copied.
  enum class Transfer { Copy, Link } transfer = Transfer::Copy;
};

struct ArtifactGarbage {
  std::vector<std::filesystem::path> paths;  // relative to the store
  uint64_t bytes = 0;
};

class ArtifactStore {
 public:
  // Of a run: <run directory>/../artifacts. Nothing is created before the first publish().
  explicit ArtifactStore(std::filesystem::path directory,
                         std::chrono::milliseconds lock_timeout = std::chrono::minutes(1));

  // A new version, which "latest" means from then on. Content that the name already has is no new
  // version: that one gets the aliases, "latest" too, and keeps its metadata. Reads in pieces:
  // needs little memory, whatever the size.
  Artifact publish(const ArtifactDraft& draft) const;

  // `reference`: NAME (its latest), NAME:ALIAS, NAME:v3 or NAME@DIGEST (at least 8 digits of it).
  // Throws Config, with the nearest name, when there is none.
  Artifact find(const std::string& reference) const;

  // All versions, by name and version. `problems`: gets one line per version that cannot be read,
  // which is then left out; without it they throw.
  std::vector<Artifact> list(std::vector<std::string>* problems = nullptr) const;

  // Adds `run_id` to what used this version, once.
  void record_use(const Artifact& artifact, const std::string& run_id) const;

  // "latest" moves by itself and can be neither set nor removed.
  void set_alias(const Artifact& artifact, const std::string& alias) const;
  void remove_alias(const std::string& name, const std::string& alias) const;

  // Where the content of a file is. To be read only.
  std::filesystem::path blob(const ArtifactFile& file) const;

  // Makes the directory `destination` with copies of all files, whole or not at all. What is there
  // already, be it a dangling link, is a Config error. Damaged content is an Environment error.
  void get(const Artifact& artifact, const std::filesystem::path& destination) const;

  // Reads every file of the artifact: one line per file that is missing or damaged.
  std::vector<std::string> verify(const Artifact& artifact) const;

  // Removes what no version needs: contents, and what interrupted processes left. `dry_run`: only
  // says what. Removes nothing when a version cannot be read, since it may need any of them.
  ArtifactGarbage gc(bool dry_run) const;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::chrono::milliseconds lock_timeout_;
};

}  // namespace lockstep::tracking
