#include "tracking/artifacts/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/printable.h"
#include "core/run_id.h"
#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "core/system/new_name.h"
#include "lockstep/error.h"
#include "tracking/artifacts/blobs.h"
#include "tracking/artifacts/catalog.h"
#include "tracking/artifacts/content.h"
#include "tracking/log/unix_time.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr auto kLatestAlias = "latest";

fs::path state_lock(const fs::path& store) { return store / "lock"; }
fs::path blobs_lock(const fs::path& store) { return store / ".blobs-lock"; }
Blobs blobs_of(const fs::path& store) { return Blobs(store / "blobs"); }

void verify_alias(const std::string& alias) {
  if (alias == kLatestAlias)
    throw config_error(
        "the alias 'latest' is maintained automatically: it cannot be set or removed");
  if (!is_artifact_alias(alias))
    throw config_error(
        fmt::format("'{}' is not a valid alias: expected 1 to 128 of A-Z a-z 0-9 . _ -, not "
                    "starting with '.' or '-', and not a "
                    "version such as v3",
                    printable(alias)));
}

void verify_run(const std::string& run_id) {
  if (!is_run_id(run_id))
    throw config_error(fmt::format("'{}' is not a valid run ID", printable(run_id)));
}

void verify_draft(const ArtifactDraft& draft) {
  verify_artifact_name(draft.name);
  if (!is_artifact_name(draft.type))
    throw config_error(
        fmt::format("'{}' is not a valid artifact type; expected a name such as model, dataset",
                    printable(draft.type)));
  for (const auto& alias : draft.aliases)
    if (alias != kLatestAlias) verify_alias(alias);
  if (draft.made_by) verify_run(*draft.made_by);
  if (!draft.metadata.is_object())
    throw config_error(fmt::format("artifact '{}': the metadata is not a map", draft.name));
}

// The version in `index` with the content of `made`; adds it if there is none.
int add_version(const ArtifactCatalog& catalog, ArtifactIndex& index, Artifact& made) {
  const auto known = std::ranges::find(index.versions, made.digest);
  const auto version = static_cast<int>(known - index.versions.begin()) + 1;
  if (known != index.versions.end()) return version;
  if (version > 1) {
    const auto before = catalog.read(made.name, index, version - 1);
    if (before.type != made.type)
      throw config_error(fmt::format("artifact '{}' is of type '{}', not '{}'", made.name,
                                     before.type, made.type));
  }
  made.version = version;
  catalog.write(made);
  index.versions.push_back(made.digest);
  return version;
}

void copy_out(const Blobs& blobs, const Artifact& artifact, const fs::path& directory) {
  for (const auto& file : artifact.files) {
    if (!is_artifact_path(file.path))
      throw config_error(
          fmt::format("'{}' is not a valid path in an artifact", printable(file.path, 200)));
    const auto path = directory / file.path;
    make_directories(path.parent_path());
    const auto blob = blobs.path_of(file.sha256);
    copy_content(blob, path, 0666);
    if (read_content(path) != FileContent{file.sha256, file.size})
      throw environment_error(fmt::format("{}: '{}' is corrupt: {} differs from its SHA-256",
                                          artifact.reference(), file.path, blob.string()));
  }
}

}  // namespace

ArtifactStore::ArtifactStore(fs::path directory, std::chrono::milliseconds lock_timeout)
    : directory_(std::move(directory)), lock_timeout_(lock_timeout) {}

Artifact ArtifactStore::publish(const ArtifactDraft& draft) const {
  verify_draft(draft);
  const auto sources = find_sources(draft);
  make_directories(directory_ / "blobs");
  const FileLock publishing(blobs_lock(directory_), FileLock::Kind::Shared, lock_timeout_);
  Artifact made{.name = draft.name,
                .type = draft.type,
                .metadata = draft.metadata,
                .created = unix_now(),
                .made_by = draft.made_by};
  const auto blobs = blobs_of(directory_);
  for (const auto& source : sources) made.files.push_back(blobs.add(source, draft.transfer));
  made.digest = artifact_digest(made.files);

  const FileLock changing(state_lock(directory_), FileLock::Kind::Exclusive, lock_timeout_);
  const ArtifactCatalog catalog(directory_);
  const auto before = catalog.read_index(draft.name);
  auto index = before.value_or(ArtifactIndex{});
  const int version = add_version(catalog, index, made);
  for (const auto& alias : draft.aliases) index.aliases[alias] = version;
  index.aliases[kLatestAlias] = version;
  if (!before || before->versions != index.versions || before->aliases != index.aliases)
    catalog.write_index(draft.name, index);
  return catalog.read(draft.name, index, version);
}

Artifact ArtifactStore::find(const std::string& reference) const {
  return ArtifactCatalog(directory_).find(reference);
}

std::vector<Artifact> ArtifactStore::list(std::vector<std::string>* problems) const {
  const ArtifactCatalog catalog(directory_);
  std::vector<Artifact> artifacts;
  const auto note_or_throw = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      if (!problems) throw;
      problems->emplace_back(error.what());
    }
  };
  for (const auto& name : catalog.names())
    note_or_throw([&] {
      const auto index = *catalog.read_index(name);
      for (int version = 1; version <= static_cast<int>(index.versions.size()); ++version)
        note_or_throw([&] { artifacts.push_back(catalog.read(name, index, version)); });
    });
  return artifacts;
}

void ArtifactStore::record_use(const Artifact& artifact, const std::string& run_id) const {
  verify_run(run_id);
  const ArtifactCatalog catalog(directory_);
  catalog.find(artifact.reference());
  const FileLock changing(state_lock(directory_), FileLock::Kind::Exclusive, lock_timeout_);
  auto known = catalog.find(artifact.reference());
  if (std::ranges::count(known.used_by, run_id) > 0) return;
  known.used_by.push_back(run_id);
  catalog.write(known);
}

void ArtifactStore::set_alias(const Artifact& artifact, const std::string& alias) const {
  verify_alias(alias);
  const ArtifactCatalog catalog(directory_);
  catalog.find(artifact.reference());
  const FileLock changing(state_lock(directory_), FileLock::Kind::Exclusive, lock_timeout_);
  auto index = *catalog.read_index(artifact.name);
  index.aliases[alias] = artifact.version;
  catalog.write_index(artifact.name, index);
}

void ArtifactStore::remove_alias(const std::string& name, const std::string& alias) const {
  verify_alias(alias);
  const ArtifactCatalog catalog(directory_);
  catalog.find(name + ":" + alias);
  const FileLock changing(state_lock(directory_), FileLock::Kind::Exclusive, lock_timeout_);
  auto index = *catalog.read_index(name);
  index.aliases.erase(alias);
  catalog.write_index(name, index);
}

fs::path ArtifactStore::blob(const ArtifactFile& file) const {
  return blobs_of(directory_).path_of(file.sha256);
}

void ArtifactStore::get(const Artifact& artifact, const fs::path& destination) const {
  auto target = fs::absolute(destination).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();  // it ends with '/'
  std::error_code error;
  if (fs::symlink_status(target, error).type() != fs::file_type::not_found)
    throw config_error(fmt::format("{} already exists; choose a directory that does not exist",
                                   printable(destination.string(), 200)));
  make_directories(target.parent_path());
  const auto temporary =
      target.parent_path() / unique_name("." + target.filename().string() + ".tmp-");
  try {
    copy_out(blobs_of(directory_), artifact, temporary);
    rename_to_new(temporary, target);
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  sync_directory(target.parent_path());
}

std::vector<std::string> ArtifactStore::verify(const Artifact& artifact) const {
  std::vector<std::string> problems;
  const auto blobs = blobs_of(directory_);
  for (const auto& file : artifact.files)
    if (const auto problem = blobs.problem_of(file))
      problems.push_back(fmt::format("{}: '{}': {}", artifact.reference(), file.path, *problem));
  return problems;
}

ArtifactGarbage ArtifactStore::gc(bool dry_run) const {
  ArtifactGarbage garbage;
  std::error_code error;
  if (!fs::is_directory(directory_, error)) return garbage;
  const FileLock alone(blobs_lock(directory_), FileLock::Kind::Exclusive, lock_timeout_);
  const FileLock changing(state_lock(directory_), FileLock::Kind::Exclusive, lock_timeout_);
  std::set<std::string> needed;
  for (const auto& artifact : list())
    for (const auto& file : artifact.files) needed.insert(file.sha256);
  auto paths = blobs_of(directory_).garbage(needed);
  std::ranges::move(ArtifactCatalog(directory_).garbage(), std::back_inserter(paths));
  std::ranges::sort(paths);
  for (const auto& path : paths) {
    const auto size = fs::file_size(path, error);
    if (!error) garbage.bytes += size;
    if (!dry_run && !fs::remove(path, error) && error)
      throw environment_error(fmt::format("cannot remove {}: {}", path.string(), error.message()));
    garbage.paths.push_back(path.lexically_relative(directory_));
  }
  return garbage;
}

}  // namespace lockstep::tracking
