#include "tracking/runs/run_trash.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/artifacts/content.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

fs::path trash_path(const fs::path& runs) { return runs / ".trash"; }

// Does not follow a symbolic link into another directory.
void make_trash(const fs::path& trash) {
  make_directories(trash);
  std::error_code ignored;
  if (fs::symlink_status(trash, ignored).type() != fs::file_type::directory)
    throw environment_error(fmt::format("{} is not a plain directory; remove it", trash.string()));
}

// "x.tmp", ".tmp-100-42" (checkpoints), "x.json.tmp-42" (durable files).
bool is_temporary(const std::string& name) {
  if (name.ends_with(".tmp") || name.starts_with(".tmp-")) return true;
  const auto at = name.rfind(".tmp-");
  return at != std::string::npos && at + 5 < name.size() &&
         name.find_first_not_of("0123456789abcdef", at + 5) == std::string::npos;
}

}  // namespace

uint64_t tree_bytes(const fs::path& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::regular)
    return fs::file_size(path, error);
  uint64_t bytes = 0;
  if (fs::is_symlink(path, error)) return bytes;
  fs::recursive_directory_iterator it(path, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (it->symlink_status(ignored).type() != fs::file_type::regular) continue;
    const auto size = it->file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

double changed_at(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

void remove_run(const fs::path& runs, const fs::path& run_dir) {
  make_trash(trash_path(runs));
  const auto doomed = trash_path(runs) / unique_name(run_dir.filename().string() + "-");
  std::error_code error;
  fs::rename(run_dir, doomed, error);
  if (error)
    throw environment_error(fmt::format("cannot remove {}: {}", run_dir.string(), error.message()));
  sync_directory(runs);
  remove_tree(doomed);
  fs::remove(trash_path(runs), error);  // only if it is empty
}

std::vector<fs::path> trash_of(const fs::path& runs) {
  std::vector<fs::path> paths;
  std::error_code error;
  const auto trash = trash_path(runs);
  if (fs::symlink_status(trash, error).type() != fs::file_type::directory) return paths;
  for (fs::directory_iterator it(trash, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  std::ranges::sort(paths);
  return paths;
}

std::vector<fs::path> temporaries_of(const fs::path& run_dir, double before) {
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::is_symlink(run_dir, error)) return paths;
  fs::recursive_directory_iterator it(run_dir, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (!is_temporary(it->path().filename().string())) continue;
    it.disable_recursion_pending();
    if (changed_at(it->path()) < before) paths.push_back(it->path());
  }
  std::ranges::sort(paths);
  return paths;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    throw environment_error(fmt::format("cannot remove {}: {}", path.string(), error.message()));
}

}  // namespace lockstep::tracking
