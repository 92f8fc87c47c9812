#include "core/system/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/file_descriptor.h"
#include "core/system/full_io.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

void write_and_sync(const std::filesystem::path& path, std::string_view content) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) throw errno_error(fmt::format("cannot create {}", path.string()));
  if (!write_all(file.get(), content))
    throw errno_error(fmt::format("cannot write {}", path.string()));
  if (::fsync(file.get()) != 0) throw errno_error(fmt::format("cannot sync {}", path.string()));
}

}  // namespace

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  if (!write_all(fd, content)) throw errno_error(fmt::format("cannot write {}", path.string()));
}

void write_file_durably(const std::filesystem::path& path, std::string_view content) {
  auto temporary = path;
  temporary += fmt::format(".tmp-{}", ::getpid());
  try {
    write_and_sync(temporary, content);
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      throw errno_error(fmt::format("cannot rename {} to {}", temporary.string(), path.string()));
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

void write_output_file(const std::filesystem::path& path, std::string_view content) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_other(status)) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open()) throw errno_error(fmt::format("cannot open {}", path.string()));
    return write_all(file.get(), content, path);
  }
  const auto target = std::filesystem::canonical(path, error);
  write_file_durably(error ? path : target, content);
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  // O_NONBLOCK: opening a pipe without a writer would otherwise block forever.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0)
    throw errno_error(fmt::format("cannot read {}", path.string()));
  if (!S_ISREG(status.st_mode))
    throw environment_error(fmt::format("cannot read {}: not a regular file", path.string()));
  if (static_cast<size_t>(status.st_size) > max_bytes)
    throw environment_error(fmt::format("cannot read {}: {} bytes exceed the limit of {} bytes",
                                        path.string(), status.st_size, max_bytes));
  auto content = read_text_at(file.get(), static_cast<size_t>(status.st_size), 0);
  if (!content) throw errno_error(fmt::format("cannot read {}", path.string()));
  return std::move(*content);
}

void sync_directory(const std::filesystem::path& directory) {
  FileDescriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open() || ::fsync(fd.get()) != 0)
    throw errno_error(fmt::format("cannot sync directory {}", directory.string()));
}

void make_directories(const std::filesystem::path& directory) {
  std::error_code error, ignored;
  std::filesystem::create_directories(directory, error);
  if (!error) return;
  auto first = directory;
  while (first.has_relative_path() && first.has_parent_path() &&
         !std::filesystem::exists(first.parent_path(), ignored))
    first = first.parent_path();
  throw environment_error(
      fmt::format("cannot create directory {}: {}", first.string(), error.message()));
}

}  // namespace lockstep
