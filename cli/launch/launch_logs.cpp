#include "cli/launch/launch_logs.h"

#include <algorithm>

#include "launch/workers/log_directory.h"

namespace lockstep::cli {
namespace {

bool has_content(const std::filesystem::path& directory) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error))
    if (entry->is_regular_file(error) && entry->file_size(error) > 0) return true;
  return false;
}

}  // namespace

LaunchLogs::~LaunchLogs() {
  if (keep_) return;
  std::error_code error;
  if (!claimed_.empty()) std::filesystem::remove_all(claimed_.back(), error);
  for (const auto& parent : created_)
    std::filesystem::remove(parent, error);  // only if it is empty
}

std::filesystem::path LaunchLogs::claim(const std::filesystem::path& log_dir) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  for (auto path = log_dir; !path.empty() && !std::filesystem::exists(path, error);
       path = path.parent_path())
    missing.push_back(path);
  created_.insert(created_.begin(), missing.begin(), missing.end());
  claimed_.push_back(launch::claim_attempt(log_dir));
  return claimed_.back();
}

bool LaunchLogs::have_content() const { return std::ranges::any_of(claimed_, has_content); }

}  // namespace lockstep::cli
