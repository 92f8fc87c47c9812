#include "formats/store/cache_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <vector>

#include "core/config/size_text.h"
#include "core/system/file_lock.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

constexpr auto kDirectoryLockTimeout = std::chrono::seconds(60);
constexpr int kCopyLockRetryMs = 1, kCopyLockRetries = 5000;
constexpr int kPartRetryMs = 10;
constexpr const char* kPartEnding = ".part";

using Clock = std::chrono::steady_clock;

// FNV-1a.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

// The version is kept in the modification time: what identifies it as the nanoseconds. File systems limit the years.
timespec time_of(const ObjectInfo& object) {
  constexpr int64_t kMaxSeconds = std::numeric_limits<int32_t>::max();
  const auto version = fmt::format("{} {}", object.tag, object.modified);
  return {.tv_sec = std::clamp<int64_t>(object.modified, 0, kMaxSeconds),
          .tv_nsec = static_cast<long>(hash_of(version) % 1'000'000'000u)};
}

bool is_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

struct CachedFile {
  fs::path path;
  int64_t bytes = 0;
  timespec used{};
};

std::vector<CachedFile> files_of_cache(const fs::path& directory) {
  std::vector<CachedFile> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    if (::stat(at->path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      files.push_back({at->path(), status.st_size, status.st_atim});
  }
  std::ranges::sort(files, [](const auto& a, const auto& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return files;
}

// A copy is locked exclusively for a moment: when it has just got its name, or is evicted.
bool share(int file) {
  for (int i = 0; ::flock(file, LOCK_SH | LOCK_NB) != 0; ++i) {
    if (i == kCopyLockRetries) return false;
    ::poll(nullptr, 0, kCopyLockRetryMs);
  }
  return true;
}

// Unless it is in use.
bool remove_unused(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {
  }, at_path{};
  return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
         ::fstat(file.get(), &status) == 0 && ::stat(path.c_str(), &at_path) == 0 &&
         at_path.st_ino == status.st_ino &&  // otherwise, it is a new version
         ::unlink(path.c_str()) == 0;
}

// Marks an open file as the copy of this version.
void mark_version(int file, const ObjectInfo& object, const std::string& name) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, time_of(object)};
  if (::fdatasync(file) != 0 || ::futimens(file, times) != 0)
    throw errno_error(name + ": cannot be written to the cache");
  struct stat status {};
  if (::fstat(file, &status) == 0 && !is_time(status.st_mtim, times[1]))
    throw environment_error(
        "data.object_cache.dir: its file system does not store the nanoseconds of modification "
        "times, "
        "which identify versions of objects: choose another directory");
}

// Creates and locks the part of a copy; nullopt: another process or thread fetches it.
std::optional<FileDescriptor> lock_part(const fs::path& part) {
  FileDescriptor file(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) throw errno_error("cannot open " + part.string());
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  // It may have been completed or removed before it was locked.
  struct stat status {
  }, at_path{};
  if (::fstat(file.get(), &status) != 0 || ::stat(part.c_str(), &at_path) != 0 ||
      at_path.st_ino != status.st_ino)
    return std::nullopt;
  return file;
}

// False, and nothing is reserved, if what is locked leaves too little: try again.
bool try_to_reserve(const fs::path& directory, int64_t max_bytes, int part, int64_t bytes,
                    const std::string& name) {
  if (bytes > max_bytes)
    throw config_error(fmt::format(
        "{}: its {} exceed the cache of {}; increase data.object_cache.max_mb", name,
        size_text(static_cast<uint64_t>(bytes)), size_text(static_cast<uint64_t>(max_bytes))));
  const FileLock lock(directory / ".lock", FileLock::Kind::Exclusive, kDirectoryLockTimeout);
  if (::ftruncate(part, 0) != 0) throw errno_error(name + ": cannot be written to the cache");
  auto files = files_of_cache(directory);
  auto total = bytes;
  for (const auto& file : files) total += file.bytes;
  for (const auto& file : files) {
    if (total <= max_bytes) break;
    if (file.bytes > 0 && remove_unused(file.path)) total -= file.bytes;
  }
  if (total > max_bytes) return false;
  errno = bytes > 0 ? ::posix_fallocate(part, 0, bytes) : 0;
  if (errno != 0)
    throw errno_error(fmt::format("{}: cannot reserve {} in {}", name,
                                  size_text(static_cast<uint64_t>(bytes)), directory.string()));
  return true;
}

fs::path part_of(const fs::path& copy) { return copy.string() + kPartEnding; }

}  // namespace

Error ended_error() { return environment_error("the process ends"); }

std::string copy_name(const std::string& endpoint, const std::string& bucket,
                      const std::string& key) {
  auto last = key.substr(key.find_last_of('/') + 1);
  for (auto& c : last)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  if (last.size() > 80) last = last.substr(last.size() - 80);
  return fmt::format("{:016x}-{}", hash_of(endpoint + "\n" + bucket + "/" + key), last);
}

std::optional<FileDescriptor> open_version(const fs::path& copy, const ObjectInfo& object) {
  FileDescriptor file(::open(copy.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {
  }, at_path{};
  if (!file.is_open() || !share(file.get()) || ::fstat(file.get(), &status) != 0)
    return std::nullopt;
  const bool is_version = status.st_size == object.size && is_time(status.st_mtim, time_of(object));
  // It may have been evicted before it was locked.
  if (!is_version || ::stat(copy.c_str(), &at_path) != 0 || at_path.st_ino != status.st_ino)
    return std::nullopt;
  const timespec used[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                            {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  ::futimens(file.get(), used);
  return file;
}

CopyOrPart copy_or_part(const fs::path& copy, const ObjectInfo& object, const Patience& patience,
                        const std::string& name) {
  const auto part = part_of(copy);
  auto deadline = Clock::now() + patience.limit;
  fs::file_time_type written;
  std::error_code ignored;
  for (;;) {
    if (auto found = open_version(copy, object)) return {.copy = std::move(found), .part = {}};
    if (auto locked = lock_part(part)) {
      // Another process may have completed it in the meantime.
      auto found = open_version(copy, object);
      if (!found) return {.copy = {}, .part = std::move(locked)};
      fs::remove(part, ignored);
      return {.copy = std::move(found), .part = {}};
    }
    if (const auto now = fs::last_write_time(part, ignored); !ignored && now != written) {
      written = now;
      deadline = Clock::now() + patience.limit;
    }
    if (Clock::now() >= deadline)
      throw environment_error(fmt::format("{}: the process that fetches it is stuck since {} s",
                                          name, patience.limit.count() / 1000));
    if (patience.stop.stop_requested()) throw ended_error();
    ::poll(nullptr, 0, kPartRetryMs);
  }
}

void complete_part(const fs::path& copy, int part, const ObjectInfo& object,
                   const std::string& name) {
  mark_version(part, object, name);
  if (::rename(part_of(copy).c_str(), copy.c_str()) != 0)
    throw errno_error(name + ": cannot be written to the cache");
}

void reserve_space(const fs::path& directory, int64_t max_bytes, int part, int64_t bytes,
                   const Patience& patience, const std::string& name) {
  const auto deadline = Clock::now() + patience.limit;
  while (!try_to_reserve(directory, max_bytes, part, bytes, name)) {
    if (patience.stop.stop_requested()) throw ended_error();
    if (Clock::now() >= deadline)
      throw environment_error(fmt::format(
          "{}: what other processes are fetching has filled the cache for {} s; increase "
          "data.object_cache.max_mb",
          name, patience.limit.count() / 1000));
    ::poll(nullptr, 0, kPartRetryMs);
  }
}

}  // namespace lockstep::formats
