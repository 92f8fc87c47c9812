#include "tracking/artifacts/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/config/nearest_name.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr auto kArtifactIndex = "aliases.json";
constexpr size_t kMinDigestDigits = 8;
// Names with another meaning in the store, and names that would make it look like a run.
constexpr std::array<const char*, 4> kReservedNames = {"blobs", "lock", "events", "run.json"};

// The number in "v3", or 0.
int version_of(std::string_view text) {
  if (!text.starts_with('v')) return 0;
  return std::max(parse_number<int>(text.substr(1)).value_or(0), 0);
}

Error no_such_name(const std::string& name, const std::vector<std::string>& names,
                   const fs::path& store) {
  const auto nearest = nearest_name(name, names);
  return config_error(fmt::format(
      "there is no artifact '{}' in '{}'{}", name, store.string(),
      nearest ? "; did you mean '" + *nearest + "'?" : "; see lockstep artifacts list"));
}

int find_alias(const std::string& name, const ArtifactIndex& index, const std::string& given) {
  const auto newest = static_cast<int>(index.versions.size());
  if (const auto alias = index.aliases.find(given); alias != index.aliases.end())
    return alias->second;
  if (const auto version = version_of(given); version > 0 && version <= newest) return version;
  std::vector<std::string> valid;
  for (const auto& [alias, version] : index.aliases) valid.push_back(alias);
  throw config_error(fmt::format("artifact '{}' has no version '{}'; it has v1 to v{} and {}", name,
                                 printable(given), newest, fmt::join(valid, ", ")));
}

int find_digest(const std::string& name, const ArtifactIndex& index, const std::string& given) {
  if (given.size() < kMinDigestDigits)
    throw config_error(fmt::format("{}@{}: expected at least {} digits of the digest", name,
                                   printable(given), kMinDigestDigits));
  int found = 0;
  for (size_t i = 0; i < index.versions.size(); ++i) {
    if (!index.versions[i].starts_with(given)) continue;
    if (found > 0)
      throw config_error(fmt::format("{}@{} is ambiguous: v{} and v{}; give more digits", name,
                                     given, found, i + 1));
    found = static_cast<int>(i) + 1;
  }
  if (found == 0)
    throw config_error(
        fmt::format("artifact '{}' has no version with digest {}", name, printable(given)));
  return found;
}

}  // namespace

void verify_artifact_name(const std::string& name) {
  if (!is_artifact_name(name))
    throw config_error(
        fmt::format("'{}' is not a valid artifact name: expected 1 to 128 of A-Z a-z 0-9 . _ -, "
                    "not starting with '.' or '-'",
                    printable(name)));
  if (std::ranges::find(kReservedNames, name) != kReservedNames.end())
    throw config_error(fmt::format("'{}' is not a valid artifact name: it is reserved", name));
}

fs::path ArtifactCatalog::directory_of(const std::string& name) const {
  verify_artifact_name(name);
  return store_ / name;
}

std::vector<std::string> ArtifactCatalog::names() const {
  std::vector<std::string> names;
  std::error_code error, ignored;
  if (!fs::exists(store_, ignored)) return names;
  for (fs::directory_iterator it(store_, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename().string();
    if (is_artifact_name(name) && fs::exists(it->path() / kArtifactIndex, ignored))
      names.push_back(name);
  }
  if (error)
    throw environment_error(fmt::format("cannot read {}: {}", store_.string(), error.message()));
  std::ranges::sort(names);
  return names;
}

std::optional<ArtifactIndex> ArtifactCatalog::read_index(const std::string& name) const {
  const auto path = directory_of(name) / kArtifactIndex;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  return parse_index(read_file(path, kMaxManifestBytes), path.string());
}

Artifact ArtifactCatalog::read(const std::string& name, const ArtifactIndex& index,
                               int version) const {
  const auto path = directory_of(name) / fmt::format("v{}.json", version);
  auto artifact = parse_manifest(read_file(path, kMaxManifestBytes), path.string());
  if (artifact.name != name || artifact.version != version ||
      artifact.digest != index.versions.at(static_cast<size_t>(version) - 1))
    throw environment_error(
        fmt::format("{} is corrupt: it differs from the version in the index", path.string()));
  for (const auto& [alias, number] : index.aliases)
    if (number == version) artifact.aliases.push_back(alias);
  return artifact;
}

Artifact ArtifactCatalog::find(const std::string& reference) const {
  const auto at = reference.find_first_of(":@");
  const auto name = reference.substr(0, at);
  const auto index = read_index(name);
  if (!index) throw no_such_name(name, names(), store_);
  if (at == std::string::npos) return read(name, *index, index->aliases.at("latest"));
  const auto which = reference.substr(at + 1);
  return read(
      name, *index,
      reference[at] == '@' ? find_digest(name, *index, which) : find_alias(name, *index, which));
}

void ArtifactCatalog::write(const Artifact& artifact) const {
  const auto directory = directory_of(artifact.name);
  const auto path = directory / fmt::format("v{}.json", artifact.version);
  const auto text = manifest_text(artifact);
  try {
    parse_manifest(text, path.string());
  } catch (const Error& error) {
    throw config_error(
        fmt::format("artifact '{}' cannot be stored: {}", artifact.name, error.what()));
  }
  make_directories(directory);
  sync_directory(store_);
  write_file_durably(path, text);
}

void ArtifactCatalog::write_index(const std::string& name, const ArtifactIndex& index) const {
  write_file_durably(directory_of(name) / kArtifactIndex, index_text(index));
}

std::vector<fs::path> ArtifactCatalog::garbage() const {
  std::map<std::string, size_t> num_versions;
  for (const auto& name : names()) num_versions[name] = read_index(name)->versions.size();
  std::vector<fs::path> paths;
  std::error_code error, ignored;
  for (fs::directory_iterator it(store_, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename().string();
    if (!is_artifact_name(name) || !fs::is_directory(it->symlink_status(ignored)) ||
        std::ranges::find(kReservedNames, name) != kReservedNames.end())
      continue;
    for (fs::directory_iterator file(it->path(), ignored); file != fs::directory_iterator();
         file.increment(ignored)) {
      const auto stem = file->path().stem().string();
      const bool version = file->path().extension() == ".json" && version_of(stem) > 0;
      if (file->path().filename().string().find(".json.tmp-") != std::string::npos ||
          (version && static_cast<size_t>(version_of(stem)) > num_versions[name]))
        paths.push_back(file->path());
    }
  }
  return paths;
}

}  // namespace lockstep::tracking
