// An artifact: one version of a named set of files, identified by its content.
//
// Names and aliases are [A-Za-z0-9._-], 1 to 128 characters, and do not start with '.' or '-'.
// Paths of files in an artifact are relative, separated by '/', at most 1024 bytes, without "." or
// ".." as a component, and without control characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

struct ArtifactFile {
  std::string path;    // within the artifact
  std::string sha256;  // 64 lower-case hexadecimal digits
  uint64_t size = 0;   // bytes

  bool operator==(const ArtifactFile&) const = default;
};

struct Artifact {
  std::string name, type;              // "mnist-model", "model"
  int version = 0;                     // from 1, without gaps
  std::string digest;                  // of all files, see artifact_digest()
  std::vector<ArtifactFile> files;     // by path, ascending; at least one
  Json metadata = Json::object();      // set by its producer
  double created = 0;                  // unix seconds
  std::optional<std::string> made_by;  // the ID of an entry in the list of runs
  std::vector<std::string> used_by;    // IDs of entries, in the order of first use
  std::vector<std::string> aliases;    // that currently refer to this version, ascending

  uint64_t size() const;          // bytes of all files
  std::string reference() const;  // "mnist-model:v3"
};

bool is_artifact_name(std::string_view text);
// As a name, but not of the form of a version ("v3").
bool is_artifact_alias(std::string_view text);
bool is_artifact_path(std::string_view text);

// The hex SHA-256 of one line "<sha256> <size> <path>\n" per file, in the given order.
std::string artifact_digest(const std::vector<ArtifactFile>& files);

}  // namespace lockstep::tracking
