#include "catalog/run_stamp.h"

#include <sys/stat.h>

namespace lockstep::catalog {
namespace {

namespace fs = std::filesystem;

using Stat = int (*)(const char*, struct stat*);

uint64_t mix(uint64_t stamp, const std::string& path, Stat look = ::stat) {
  struct stat info {};
  if (look(path.c_str(), &info) != 0) return stamp * 31;
  const auto time = static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000u +
                    static_cast<uint64_t>(info.st_mtim.tv_nsec);
  return (stamp * 0x9E3779B97F4A7C15u) ^ time ^ (static_cast<uint64_t>(info.st_size) << 20) ^
         info.st_ino;
}

uint64_t stamp_of_files(const std::string& run_dir, Stat look_at_events) {
  auto stamp = mix(mix(1, run_dir), run_dir + "/events", look_at_events);
  // Modifying a file in place does not change its directory.
  for (const auto* file : {"/run.json", "/tags.json", "/end.json", "/ends"})
    stamp = mix(stamp, run_dir + file);
  return stamp;
}

}  // namespace

// If the logs are symbolic links, or in a linked directory, the stamps differ between readers that
// follow links and those that do not.
uint64_t stamp_of(const fs::path& run_dir) {
  auto stamp = stamp_of_files(run_dir.string(), ::lstat);
  for (const auto& log : log_names(run_dir, Links::Follow)) stamp = mix(stamp, log.path.string());
  return stamp;
}

uint64_t stamp_of(const fs::path& run_dir, const RunSummary& run) {
  auto stamp = stamp_of_files(run_dir.string(), ::stat);
  for (const auto& source : run.sources) stamp = mix(stamp, log_path(run_dir, source).string());
  return stamp;
}

uint64_t stamp_of_directory(const fs::path& directory) { return mix(1, directory.string()); }

bool is_run(const fs::path& path, Links links) {
  std::error_code ignored;
  const auto status =
      links == Links::Follow ? fs::status(path, ignored) : fs::symlink_status(path, ignored);
  return status.type() == fs::file_type::directory &&
         (fs::exists(path / "run.json", ignored) || fs::is_directory(path / "events", ignored));
}

double directory_time(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<double>(info.st_mtim.tv_sec) : 0;
}

}  // namespace lockstep::catalog
