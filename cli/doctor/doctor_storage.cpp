#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "cli/doctor/doctor_findings.h"
#include "core/config/size_text.h"
#include "core/printable.h"
#include "core/system/file_descriptor.h"
#include "lockstep/rank_env.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTestBytes = 1 << 20;
constexpr uint64_t kLowSpace = 1'000'000'000;
constexpr double kSlowSync = 0.5;  // seconds

// Creates a temporary file and unlinks it.
FileDescriptor open_unlinked_file(const fs::path& directory) {
  auto pattern = (directory / ".lockstep-doctor-XXXXXX").string();
  FileDescriptor file(::mkostemp(pattern.data(), O_CLOEXEC));
  if (file.is_open()) ::unlink(pattern.c_str());
  return file;
}

// Such as "nfs"; empty for local and unknown file systems.
std::string file_system_type(const struct statfs& status) {
  static const std::map<uint64_t, const char*> kKinds = {
      {0x6969, "nfs"},        {0xff534d42, "cifs"}, {0xfe534d42, "smb"},  {0x0bd00bd0, "lustre"},
      {0x01021994, "tmpfs"},  {0x65735546, "fuse"}, {0x00c36400, "ceph"}, {0x47504653, "gpfs"},
      {0x19830326, "beegfs"}, {0x01021997, "9p"}};
  const auto known = kKinds.find(static_cast<uint32_t>(status.f_type));
  return known == kKinds.end() ? "" : known->second;
}

// The directory, or its nearest existing ancestor.
fs::path nearest_existing(const fs::path& directory) {
  std::error_code error;
  auto path = fs::absolute(directory, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

// Writes a file like event logs and checkpoints. Returns the problem, or ""; `seconds` is set to
// the duration of fsync.
std::string try_to_write(const fs::path& directory, double& seconds) {
  const auto file = open_unlinked_file(directory);
  if (!file.is_open()) return std::string("cannot be written: ") + std::strerror(errno);
  if (const int error = ::posix_fallocate(file.get(), 0, kTestBytes))
    return std::string("cannot store a file of 1 MiB: ") + std::strerror(error);
  void* const mapped =
      ::mmap(nullptr, kTestBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED)
    return std::string("cannot map files, which event logs need: ") + std::strerror(errno);
  std::memset(mapped, 1, kTestBytes);
  ::munmap(mapped, kTestBytes);
  const auto begin = std::chrono::steady_clock::now();
  if (::fsync(file.get()) != 0) return std::string("cannot be synced: ") + std::strerror(errno);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

}  // namespace

Finding check_runs_directory(const fs::path& directory) {
  const auto place = nearest_existing(directory);
  const auto name = fmt::format("'{}'", printable(place.string(), 200));
  std::error_code error;
  if (!fs::is_directory(place, error))
    return {"runs", Health::Problem, name + " is not a directory; choose another with run.dir"};
  struct statfs status {};
  if (::statfs(place.c_str(), &status) != 0)
    return {"runs", Health::Problem, fmt::format("{}: {}", name, std::strerror(errno))};
  double seconds = 0;
  if (const auto problem = try_to_write(place, seconds); !problem.empty())
    return {"runs", Health::Problem,
            fmt::format("{} {}; choose another with run.dir", name, problem)};
  const auto kind = file_system_type(status);
  const auto free = static_cast<uint64_t>(status.f_bavail) * static_cast<uint64_t>(status.f_bsize);
  const auto found =
      fmt::format("{} is writable{}, {} free, fsync of 1 MiB takes {:.0f} ms", name,
                  kind.empty() ? "" : " (" + kind + ")", size_text(free), 1e3 * seconds);
  if (kind == "tmpfs")
    return {"runs", Health::Warning, found + "; but it is memory: runs are lost at shutdown"};
  if (free < kLowSpace)
    return {"runs", Health::Warning, found + ": low disk space for checkpoints"};
  if (seconds > kSlowSync)
    return {"runs", Health::Warning,
            found + ": slow; training continues meanwhile, but checkpoints are delayed"};
  auto parent = fs::absolute(directory, error).lexically_normal();
  if (!parent.has_filename()) parent = parent.parent_path();  // "runs/"
  parent = parent.parent_path();
  if (!fs::exists(parent, error))
    return {"runs", Health::Warning,
            fmt::format("'{}' does not exist; runs would be created in {}: is a file system not "
                        "mounted?",
                        printable(parent.string(), 200), name)};
  return {"runs", Health::Good, found};
}

Finding check_temporary_directory() {
  std::error_code error;
  const auto directory = fs::temp_directory_path(error);
  const auto given = environment("TMPDIR");
  const auto name = error && given ? fmt::format("TMPDIR '{}'", printable(*given, 200))
                                   : fmt::format("'{}'", printable(directory.string(), 200));
  const auto file = error ? FileDescriptor() : open_unlinked_file(directory);
  if (!file.is_open() || ::posix_fallocate(file.get(), 0, 4096) != 0)
    return {"temporary files", Health::Problem,
            name + " cannot be written; set TMPDIR to a writable directory"};
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED)
    return {"temporary files", Health::Warning,
            name +
                " is mounted noexec, so compiled models cannot be loaded; set TMPDIR to a "
                "directory that allows execution"};
  ::munmap(mapped, 4096);
  return {"temporary files", Health::Good, name + " is writable, and code can be loaded from it"};
}

}  // namespace lockstep::cli
