#include "ui/run_stamp.h"

#include <sys/stat.h>

#include "tracking/run_directory.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

uint64_t mix(uint64_t stamp, const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return stamp * 31;
  const auto time = static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000u +
                    static_cast<uint64_t>(info.st_mtim.tv_nsec);
  return (stamp * 0x9E3779B97F4A7C15u) ^ time ^ (static_cast<uint64_t>(info.st_size) << 20) ^
         info.st_ino;
}

}  // namespace

uint64_t stamp_of(const fs::path& run_dir) {
  auto stamp = mix(mix(1, run_dir), run_dir / "events");
  // A file that is changed in place leaves its directory as it was.
  for (const auto* file : {"run.json", "tags.json", "end.json", "ends"})
    stamp = mix(stamp, run_dir / file);
  for (const auto& log : rank_logs(run_dir)) stamp = mix(stamp, log);
  for (const auto& log : node_logs(run_dir)) stamp = mix(stamp, log);
  return stamp;
}

uint64_t stamp_of_directory(const fs::path& directory) { return mix(1, directory); }

bool is_run(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory &&
         (fs::exists(path / "run.json", ignored) || fs::is_directory(path / "events", ignored));
}

double directory_time(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<double>(info.st_mtim.tv_sec) : 0;
}

}  // namespace lockstep
