#include "core/system/committed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/system/durable_file.h"
#include "core/system/full_io.h"
#include "lockstep/error.h"

namespace lockstep {

CommittedFile::CommittedFile(std::filesystem::path path, uint64_t length) : path_(std::move(path)) {
  const auto directory = path_.has_parent_path() ? path_.parent_path() : ".";
  make_directories(directory);
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0)
    throw errno_error(fmt::format("cannot open {}", path_.string()));
  if (!S_ISREG(status.st_mode))
    throw environment_error(fmt::format("cannot write {}: not a regular file", path_.string()));
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
    throw environment_error(
        fmt::format("cannot write {}: another process or run is writing it", path_.string()));
  flushed_length_ = std::min(length, static_cast<uint64_t>(status.st_size));
  if (::ftruncate(file_.get(), static_cast<off_t>(flushed_length_)) != 0)
    throw errno_error(fmt::format("cannot truncate {}", path_.string()));
  sync_directory(directory);
}

void CommittedFile::flush() {
  if (unflushed_.empty()) return;
  try {
    write_all(flushed_length_, unflushed_);
  } catch (const Error&) {
    // Best effort: the next object truncates the file, too.
    [[maybe_unused]] const auto ignored =
        ::ftruncate(file_.get(), static_cast<off_t>(flushed_length_));
    throw;
  }
  flushed_length_ += unflushed_.size();
  unflushed_.clear();
}

void CommittedFile::overwrite(uint64_t offset, std::string_view bytes) {
  check(offset + bytes.size() <= flushed_length_, "overwrite range exceeds the flushed length");
  write_all(offset, bytes);
}

void CommittedFile::write_all(uint64_t offset, std::string_view bytes) {
  if (!write_all_at(file_.get(), bytes, offset))
    throw errno_error(fmt::format("cannot write {}", path_.string()));
  if (::fdatasync(file_.get()) != 0)
    throw errno_error(fmt::format("cannot sync {}", path_.string()));
}

}  // namespace lockstep
