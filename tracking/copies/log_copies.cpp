#include "tracking/copies/log_copies.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <iterator>

#include "core/system/full_io.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_writer.h"

namespace lockstep::tracking {

// Readers recognize a growing log by the lock on its first segment.
LogCopies::Copy& LogCopies::find(const std::string& name, int owner) {
  if (const auto found = copies_.find(name); found != copies_.end()) return found->second;
  const auto path = events_ / name;
  FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (!file.is_open()) throw errno_error(fmt::format("cannot open {}", path.string()));
  lock_for_writing(file.get(), path);
  const auto size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0) throw errno_error(fmt::format("cannot read {}", path.string()));
  const auto content = measure_copy(file.get(), static_cast<uint64_t>(size));
  return copies_[name] = {.file = std::move(file), .content = content, .owner = owner};
}

const LogCopy& LogCopies::open(const std::string& name, int owner) {
  return find(name, owner).content;
}

bool LogCopies::append(const std::string& name, int owner, std::string_view bytes,
                       uint64_t offset) {
  auto& copy = find(name, owner);
  if (offset != copy.content.size) return false;
  try {
    if (!write_all_at(copy.file.get(), bytes, offset))
      throw errno_error(fmt::format("cannot write {}", (events_ / name).string()));
    copy.content = measure_copy(copy.file.get(), offset + bytes.size());
  } catch (const Error&) {
    copies_.erase(name);  // opening it again determines how much was written
    throw;
  }
  return true;
}

std::vector<FileDescriptor> LogCopies::release(int owner) {
  std::vector<FileDescriptor> files;
  for (auto it = copies_.begin(); it != copies_.end();) {
    const bool matches = it->second.owner == owner;
    if (matches) files.push_back(std::move(it->second.file));
    it = matches ? copies_.erase(it) : std::next(it);
  }
  return files;
}

}  // namespace lockstep::tracking
