#include "tracking/artifacts/blobs.h"

#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/artifacts/content.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr auto kBlobTemporary = ".tmp-";
constexpr unsigned kBlobMode = 0444;

// Removes a temporary file in the destructor, unless it was renamed.
class TemporaryBlob {
 public:
  explicit TemporaryBlob(const fs::path& directory)
      : path_(directory / unique_name(kBlobTemporary)) {}
  ~TemporaryBlob() { ::unlink(path_.c_str()); }
  TemporaryBlob(TemporaryBlob&&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

fs::path Blobs::path_of(const std::string& sha256) const {
  if (!is_sha256(sha256))
    throw config_error(fmt::format("'{}' is not the SHA-256 of a file", printable(sha256)));
  return directory_ / sha256.substr(0, 2) / sha256;
}

bool Blobs::has(const std::string& sha256, uint64_t size) const {
  std::error_code error;
  const auto path = path_of(sha256);
  return fs::symlink_status(path, error).type() == fs::file_type::regular &&
         fs::file_size(path, error) == size && !error;
}

ArtifactFile Blobs::add(const ArtifactSource& source, ArtifactDraft::Transfer transfer) const {
  const auto content = read_content(source.source);
  const ArtifactFile file{.path = source.path, .sha256 = content.sha256, .size = content.size};
  if (has(file.sha256, file.size)) return file;
  const auto path = path_of(file.sha256);
  make_directories(path.parent_path());
  const TemporaryBlob temporary(directory_);
  const bool linked =
      transfer == ArtifactDraft::Transfer::Link && link_content(source.source, temporary.path());
  if (!linked) copy_content(source.source, temporary.path(), kBlobMode);
  if (read_content(temporary.path()) != content)
    throw environment_error(
        fmt::format("{} was modified while it was read; publish it when it is complete",
                    printable(source.source.string(), 200)));
  if (::rename(temporary.path().c_str(), path.c_str()) != 0)
    throw errno_error(fmt::format("cannot create {}", path.string()));
  sync_directory(path.parent_path());
  sync_directory(directory_);
  return file;
}

std::optional<std::string> Blobs::problem_of(const ArtifactFile& file) const {
  const auto path = path_of(file.sha256);
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found)
    return fmt::format("its content is missing: {}", path.string());
  try {
    const auto content = read_content(path);
    if (content == FileContent{file.sha256, file.size}) return std::nullopt;
    return fmt::format("its content is corrupt: {} has {} bytes with SHA-256 {}", path.string(),
                       content.size, content.sha256);
  } catch (const Error& unreadable) {
    return unreadable.what();
  }
}

std::vector<fs::path> Blobs::garbage(const std::set<std::string>& needed) const {
  std::vector<fs::path> paths;
  std::error_code error;
  if (!fs::exists(directory_, error)) return paths;
  fs::recursive_directory_iterator it(directory_, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const auto name = it->path().filename().string();
    const bool temporary = it.depth() == 0 && name.starts_with(kBlobTemporary);
    if (temporary || (it.depth() == 1 && is_sha256(name) && !needed.contains(name)))
      paths.push_back(it->path());
  }
  if (error)
    throw environment_error(
        fmt::format("cannot read {}: {}", directory_.string(), error.message()));
  return paths;
}

}  // namespace lockstep::tracking
