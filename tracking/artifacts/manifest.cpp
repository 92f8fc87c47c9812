#include "tracking/artifacts/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/printable.h"
#include "core/run_id.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

constexpr int kManifestFormat = 1;
constexpr size_t kMaxArtifactFiles = 100'000;
constexpr int kMaxArtifactVersions = 1'000'000;
constexpr uint64_t kMaxArtifactBytes = uint64_t{1} << 60;
// Bounds stack and time for a hostile file: objects are searched member by member.
constexpr int kMaxManifestDepth = 32;
constexpr size_t kMaxManifestMembers = 1000;

// Reads one file; errors name it.
class ManifestReader {
 public:
  explicit ManifestReader(const std::string& origin) : origin_(origin) {}

  Error corrupt(const std::string& what) const {
    return environment_error(fmt::format("{}: corrupt: {}", origin_, what));
  }

  Json parse(std::string_view text) const {
    if (text.size() > kMaxManifestBytes) throw corrupt("it is too large");
    std::array<size_t, kMaxManifestDepth + 2> members{};
    bool excessive = false;
    const auto count = [&](int depth, Json::parse_event_t event, const Json&) {
      const bool begins =
          event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
      if (begins && depth >= kMaxManifestDepth) excessive = true;
      if (excessive) return false;
      if (begins) members[static_cast<size_t>(depth) + 1] = 0;
      if (event == Json::parse_event_t::key)
        excessive = ++members[static_cast<size_t>(depth)] > kMaxManifestMembers;
      return !excessive;
    };
    auto json = Json::parse(text, count, false);
    if (excessive) throw corrupt("it is nested too deeply or has too many members");
    if (!json.is_object()) throw corrupt("it is not a JSON object");
    if (whole_number(json, "format", 1 << 20) != kManifestFormat)
      throw corrupt("it was written by another version of Lockstep");
    return json;
  }

  const Json& member(const Json& json, const char* key) const {
    const auto it = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || it == json.end()) throw corrupt(fmt::format("'{}' is missing", key));
    return *it;
  }
  std::string text(const Json& json, const char* key) const {
    const auto& value = member(json, key);
    if (!value.is_string()) throw corrupt(fmt::format("'{}' is not a string", key));
    return value.get<std::string>();
  }
  uint64_t whole_number(const Json& json, const char* key, uint64_t largest) const {
    return whole_number(member(json, key), fmt::format("'{}'", key), largest);
  }
  uint64_t whole_number(const Json& value, const std::string& what, uint64_t largest) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > largest)
      throw corrupt(what + " is not a valid number");
    return value.get<uint64_t>();
  }
  const Json& list(const Json& json, const char* key, size_t most) const {
    const auto& value = member(json, key);
    if (!value.is_array() || value.size() > most)
      throw corrupt(fmt::format("'{}' is not a list of at most {}", key, most));
    return value;
  }
  std::string digest(const Json& json, const char* key) const {
    auto value = text(json, key);
    if (!is_sha256(value)) throw corrupt(fmt::format("'{}' is not a SHA-256", key));
    return value;
  }
  std::string name(const Json& json, const char* key) const {
    auto value = text(json, key);
    if (!is_artifact_name(value)) throw corrupt(fmt::format("'{}' is not a valid name", key));
    return value;
  }
  std::string run_id(const Json& value) const {
    if (!value.is_string() || !is_run_id(value.get<std::string>()))
      throw corrupt("'made_by' or 'used_by' is not a run ID");
    return value.get<std::string>();
  }

 private:
  const std::string& origin_;
};

std::vector<ArtifactFile> read_files(const ManifestReader& reader, const Json& json) {
  std::vector<ArtifactFile> files;
  uint64_t bytes = 0;
  for (const auto& entry : reader.list(json, "files", kMaxArtifactFiles)) {
    ArtifactFile file{.path = reader.text(entry, "path"),
                      .sha256 = reader.digest(entry, "sha256"),
                      .size = reader.whole_number(entry, "size", kMaxArtifactBytes)};
    bytes += file.size;
    if (!is_artifact_path(file.path))
      throw reader.corrupt(
          fmt::format("'{}' is not a valid path in an artifact", printable(file.path)));
    if (bytes > kMaxArtifactBytes) throw reader.corrupt("its size is out of range");
    if (!files.empty() && file.path <= files.back().path)
      throw reader.corrupt("its files are not sorted");
    files.push_back(std::move(file));
  }
  if (files.empty()) throw reader.corrupt("it has no files");
  return files;
}

// Checks that no file is also a directory.
void verify_directories(const ManifestReader& reader, const std::vector<ArtifactFile>& files) {
  std::set<std::string_view> paths;
  for (const auto& file : files) paths.insert(file.path);
  for (const std::string_view path : paths)
    for (auto at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1))
      if (paths.contains(path.substr(0, at)))
        throw reader.corrupt(
            fmt::format("'{}' is both a file and a directory", printable(path.substr(0, at))));
}

Json files_json(const std::vector<ArtifactFile>& files) {
  auto json = Json::array();
  for (const auto& file : files)
    json.push_back({{"path", file.path}, {"sha256", file.sha256}, {"size", file.size}});
  return json;
}

std::string manifest_dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string manifest_text(const Artifact& artifact) {
  return manifest_dump({{"format", kManifestFormat},
                        {"name", artifact.name},
                        {"type", artifact.type},
                        {"version", artifact.version},
                        {"digest", artifact.digest},
                        {"created", artifact.created},
                        {"made_by", artifact.made_by ? Json(*artifact.made_by) : Json(nullptr)},
                        {"used_by", artifact.used_by},
                        {"metadata", artifact.metadata},
                        {"files", files_json(artifact.files)}});
}

std::string index_text(const ArtifactIndex& index) {
  auto aliases = Json::object();
  for (const auto& [alias, version] : index.aliases) aliases[alias] = version;
  return manifest_dump(
      {{"format", kManifestFormat}, {"versions", index.versions}, {"aliases", aliases}});
}

Artifact parse_manifest(std::string_view text, const std::string& origin) {
  const ManifestReader reader(origin);
  const auto json = reader.parse(text);
  Artifact artifact{
      .name = reader.name(json, "name"),
      .type = reader.name(json, "type"),
      .version = static_cast<int>(reader.whole_number(json, "version", kMaxArtifactVersions)),
      .digest = reader.digest(json, "digest"),
      .files = read_files(reader, json),
      .metadata = reader.member(json, "metadata")};
  if (artifact.version == 0) throw reader.corrupt("version 0 is invalid");
  if (!artifact.metadata.is_object()) throw reader.corrupt("'metadata' is not an object");
  const auto& created = reader.member(json, "created");
  if (!created.is_number()) throw reader.corrupt("'created' is not a number");
  artifact.created = created.get<double>();
  if (const auto& run = reader.member(json, "made_by"); !run.is_null())
    artifact.made_by = reader.run_id(run);
  for (const auto& run : reader.list(json, "used_by", kMaxArtifactVersions))
    artifact.used_by.push_back(reader.run_id(run));
  verify_directories(reader, artifact.files);
  if (artifact_digest(artifact.files) != artifact.digest)
    throw reader.corrupt("its digest does not match its files");
  return artifact;
}

ArtifactIndex parse_index(std::string_view text, const std::string& origin) {
  const ManifestReader reader(origin);
  const auto json = reader.parse(text);
  ArtifactIndex index;
  std::set<std::string> seen;
  for (const auto& digest : reader.list(json, "versions", kMaxArtifactVersions)) {
    if (!digest.is_string() || !is_sha256(digest.get<std::string>()) ||
        !seen.insert(digest.get<std::string>()).second)
      throw reader.corrupt("'versions' has an invalid or duplicate digest");
    index.versions.push_back(digest.get<std::string>());
  }
  const auto& aliases = reader.member(json, "aliases");
  if (!aliases.is_object()) throw reader.corrupt("'aliases' is not an object");
  for (const auto& [alias, version] : aliases.items()) {
    if (!is_artifact_alias(alias)) throw reader.corrupt("'aliases' has an invalid name");
    const auto number =
        reader.whole_number(version, std::string("a version in 'aliases'"), index.versions.size());
    if (number == 0) throw reader.corrupt("version 0 is invalid");
    index.aliases[alias] = static_cast<int>(number);
  }
  if (!index.aliases.contains("latest")) throw reader.corrupt("'latest' is missing");
  return index;
}

}  // namespace lockstep::tracking
