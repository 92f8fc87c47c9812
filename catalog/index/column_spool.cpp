#include "catalog/index/column_spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr uint64_t kHolePage = 4096;

// A file without a name; where the file system knows no such thing, one whose name is removed.
FileDescriptor unnamed_file(const std::filesystem::path& directory) {
  FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open()) return file;
  auto name = (directory / ".lockstep-ui-XXXXXX").string();
  file = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file.is_open()) ::unlink(name.c_str());
  return file;
}

}  // namespace

ColumnSpool::ColumnSpool(const std::vector<std::filesystem::path>& directories) {
  for (const auto& directory : directories) {
    file_ = unnamed_file(directory);
    if (file_.is_open()) return;
  }
  throw environment_error(
      fmt::format("no temporary file can be made: {} is not writable",
                  directories.empty() ? "no directory" : directories.back().string()));
}

uint64_t ColumnSpool::append(std::span<const std::byte> bytes) {
  uint64_t begin = 0;
  {
    const std::lock_guard lock(mutex_);
    begin = end_;
    end_ += (bytes.size() + kHolePage - 1) / kHolePage * kHolePage;
    used_ += bytes.size();
  }
  for (size_t done = 0; done < bytes.size();) {
    const auto count = ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error("the dashboard's temporary file cannot be written");
    done += static_cast<size_t>(count);
  }
  return begin;
}

void ColumnSpool::read(uint64_t offset, std::span<std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const auto count = ::pread(file_.get(), bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error("the dashboard's temporary file cannot be read");
    check(count > 0, "a column lies within the spool");
    done += static_cast<size_t>(count);
  }
}

void ColumnSpool::release(uint64_t offset, uint64_t num_bytes) {
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>((num_bytes + kHolePage - 1) / kHolePage * kHolePage));
  const std::lock_guard lock(mutex_);
  used_ -= num_bytes;
}

uint64_t ColumnSpool::size() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace lockstep
