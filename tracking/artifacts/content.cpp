#include "tracking/artifacts/content.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "core/printable.h"
#include "core/system/file_descriptor.h"
#include "core/system/full_io.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr size_t kContentPiece = 1u << 20;

std::string shown(const fs::path& path) { return printable(path.string(), 200); }

// Nonblocking: opening a FIFO without a writer would block.
FileDescriptor open_regular(const fs::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() && errno == ELOOP)
    throw config_error(
        fmt::format("{} is a symbolic link; an artifact contains only files", shown(path)));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0)
    throw errno_error(fmt::format("cannot read {}", shown(path)));
  if (!S_ISREG(status.st_mode))
    throw config_error(fmt::format("{} is not a regular file", shown(path)));
  return file;
}

// The next block, in `buffer`; empty at the end.
std::string_view read_piece(int fd, std::string& buffer, const fs::path& path) {
  buffer.resize(kContentPiece);
  ssize_t got = 0;
  do got = ::read(fd, buffer.data(), buffer.size());
  while (got < 0 && errno == EINTR);
  if (got < 0) throw errno_error(fmt::format("cannot read {}", shown(path)));
  return std::string_view(buffer).substr(0, static_cast<size_t>(got));
}

// False if the kernel cannot copy between these files; nothing was copied then.
bool copy_in_kernel(int from, int to, const fs::path& destination) {
  for (bool first = true;; first = false) {
    const auto copied = ::copy_file_range(from, nullptr, to, nullptr, size_t{1} << 30, 0);
    if (copied == 0) return true;
    if (copied > 0 || errno == EINTR) continue;
    const bool unable = errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
                        errno == EOPNOTSUPP || errno == EPERM;
    if (first && unable) return false;
    throw errno_error(fmt::format("cannot write {}", shown(destination)));
  }
}

void copy_by_hand(int from, int to, const fs::path& source, const fs::path& destination) {
  std::string buffer;
  for (auto piece = read_piece(from, buffer, source); !piece.empty();
       piece = read_piece(from, buffer, source))
    if (!write_all(to, piece))
      throw errno_error(fmt::format("cannot write {}", shown(destination)));
}

void add_directory(const fs::path& directory, std::vector<ArtifactSource>& sources) {
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code status_error;
    const auto type = it->symlink_status(status_error).type();
    if (type == fs::file_type::symlink)
      throw config_error(
          fmt::format("{} is a symbolic link; an artifact contains only files: replace it by its "
                      "target, or remove it",
                      shown(it->path())));
    if (type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular)
      throw config_error(fmt::format("{} is not a regular file", shown(it->path())));
    sources.push_back({it->path().lexically_relative(directory).generic_string(), it->path()});
  }
  if (error)
    throw environment_error(fmt::format("cannot read {}: {}", shown(directory), error.message()));
}

void verify_sources(const std::vector<ArtifactSource>& sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto& path = sources[i].path;
    if (!is_artifact_path(path))
      throw config_error(
          fmt::format("'{}' is not a valid path in an artifact: expected a relative path without "
                      "'..' and control characters, "
                      "valid UTF-8, at most 1024 bytes",
                      printable(path, 200)));
    if (i > 0 && path == sources[i - 1].path)
      throw config_error(fmt::format("'{}' appears twice", printable(path, 200)));
  }
}

}  // namespace

FileContent read_content(const fs::path& path) {
  const auto file = open_regular(path);
  Sha256 hash;
  FileContent content;
  std::string buffer;
  for (auto piece = read_piece(file.get(), buffer, path); !piece.empty();
       piece = read_piece(file.get(), buffer, path)) {
    hash.add(piece);
    content.size += piece.size();
  }
  content.sha256 = hash.hex();
  return content;
}

void copy_content(const fs::path& source, const fs::path& destination, unsigned mode) {
  const auto from = open_regular(source);
  FileDescriptor to(::open(destination.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!to.is_open()) throw errno_error(fmt::format("cannot create {}", shown(destination)));
  try {
    if (!copy_in_kernel(from.get(), to.get(), destination))
      copy_by_hand(from.get(), to.get(), source, destination);
    if (::fsync(to.get()) != 0)
      throw errno_error(fmt::format("cannot sync {}", shown(destination)));
  } catch (...) {
    ::unlink(destination.c_str());
    throw;
  }
}

bool link_content(const fs::path& source, const fs::path& destination) {
  const auto file = open_regular(source);
  if (::fsync(file.get()) != 0) throw errno_error(fmt::format("cannot sync {}", shown(source)));
  const auto opened = fmt::format("/proc/self/fd/{}", file.get());
  return ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, destination.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

std::vector<ArtifactSource> find_sources(const ArtifactDraft& draft) {
  auto sources = draft.files;
  std::error_code error;
  if (!draft.source.empty()) {
    if (!fs::exists(draft.source, error))
      throw config_error(fmt::format("{} does not exist", shown(draft.source)));
    if (fs::is_directory(draft.source, error))
      add_directory(draft.source, sources);
    else
      sources.push_back({draft.source.filename().string(), draft.source});
  }
  if (sources.empty())
    throw config_error(fmt::format("artifact '{}' would have no files", draft.name));
  std::ranges::sort(sources, {}, &ArtifactSource::path);
  verify_sources(sources);
  return sources;
}

std::string unique_name(const std::string& prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}", prefix, random(), random());
}

}  // namespace lockstep::tracking
