// The two files that describe an artifact in its store, as JSON. For any bytes, reading returns a
// consistent value or throws one Environment error that names the file.
//
//   v3.json       {"format": 1, "name": "mnist-model", "type": "model", "version": 3,
//                  "digest": "ab..", "created": 1700000000.5, "made_by": "mnist-1" | null,
//                  "used_by": ["eval-1"], "metadata": {},
//                  "files": [{"path": "weights", "sha256": "cd..", "size": 4096}]}
//   aliases.json  {"format": 1, "versions": ["ab..", ...], "aliases": {"latest": 3, "best": 2}}
//
// `versions` has the digests of the versions 1, 2, ...; exactly those exist.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/artifacts/artifact.h"

namespace lockstep::tracking {

struct ArtifactIndex {
  std::vector<std::string> versions;   // at least one, without duplicates
  std::map<std::string, int> aliases;  // "latest" is among them
};

constexpr size_t kMaxManifestBytes = 64u << 20;

std::string manifest_text(const Artifact& artifact);
std::string index_text(const ArtifactIndex& index);

// `origin`: the name of the file, for errors. Does not set `aliases` of the result. At most 100,000
// files; metadata at most 32 levels deep, with at most 1,000 members per object.
Artifact parse_manifest(std::string_view text, const std::string& origin);
ArtifactIndex parse_index(std::string_view text, const std::string& origin);

}  // namespace lockstep::tracking
