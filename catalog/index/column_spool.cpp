#include "catalog/index/column_spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "core/system/full_io.h"
#include "lockstep/error.h"

namespace lockstep::catalog {
namespace {

constexpr uint64_t kHolePage = 4096;

// An anonymous file; if the file system does not support that, one that is removed after opening.
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
      fmt::format("cannot create a temporary file: {} is not writable",
                  directories.empty() ? "no directory" : directories.back().string()));
}

uint64_t ColumnSpool::append(std::span<const std::byte> bytes) {
  uint64_t begin = 0;
  {
    const MutexLock lock(mutex_);
    begin = end_;
    end_ += (bytes.size() + kHolePage - 1) / kHolePage * kHolePage;
    used_ += bytes.size();
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!write_all_at(file_.get(), text, begin))
    throw errno_error("cannot write the dashboard's temporary file");
  return begin;
}

void ColumnSpool::read(uint64_t offset, std::span<std::byte> bytes) const {
  const auto count =
      read_all_at(file_.get(), reinterpret_cast<char*>(bytes.data()), bytes.size(), offset);
  if (!count) throw errno_error("cannot read the dashboard's temporary file");
  check(*count == bytes.size(), "a column is outside the spool");
}

void ColumnSpool::release(uint64_t offset, uint64_t num_bytes) {
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>((num_bytes + kHolePage - 1) / kHolePage * kHolePage));
  const MutexLock lock(mutex_);
  used_ -= num_bytes;
}

uint64_t ColumnSpool::size() const {
  const MutexLock lock(mutex_);
  return used_;
}

}  // namespace lockstep::catalog
