#include "tracking/copies/run_sender.h"

#include <algorithm>
#include <iterator>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/copies/run_files.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

// Describes the end of a run; sent after the logs, so that the run does not look over before.
bool is_outcome(const std::string& name) { return is_removable_run_file(name); }

std::vector<fs::path> all_logs(const fs::path& run_dir) {
  auto logs = rank_logs(run_dir);
  std::ranges::copy(node_logs(run_dir), std::back_inserter(logs));
  return logs;
}

}  // namespace

void RunSender::send_file(const std::string& name) {
  const auto path = run_dir_ / name;
  const FileTime now{fs::last_write_time(path), fs::file_size(path)};
  if (const auto seen = seen_.find(name); seen != seen_.end() && seen->second == now) return;
  const auto bytes = read_file(path, kMaxRunFileBytes);
  if (!has_file(name, bytes)) put_file(name, bytes);
  seen_[name] = now;
}

void RunSender::remove_files_that_are_gone() {
  const auto names = run_files(run_dir_);
  for (const auto& name : remote_files()) {
    if (!is_removable_run_file(name) || std::ranges::count(names, name) > 0) continue;
    remove_file(name);
    seen_.erase(name);
  }
}

void RunSender::send_all(const std::vector<fs::path>& to_send, bool removes) {
  try {
    if (removes) remove_files_that_are_gone();
    const auto names = run_files(run_dir_);
    for (const auto& name : names)
      if (!is_outcome(name)) send_file(name);
    for (const auto& log : to_send) logs().send(log);
    for (const auto& name : names)
      if (is_outcome(name)) send_file(name);
  } catch (const fs::filesystem_error& error) {  // a file was replaced or removed meanwhile
    throw environment_error(error.what());
  }
}

void RunSender::send() { send_all(all_logs(run_dir_), true); }

void RunSender::send_part(const std::vector<fs::path>& to_send) { send_all(to_send, false); }

bool RunSender::is_sent() {
  for (const auto& name : run_files(run_dir_))
    if (!has_file(name, read_file(run_dir_ / name, kMaxRunFileBytes))) return false;
  try {
    return std::ranges::all_of(all_logs(run_dir_),
                               [this](const auto& log) { return logs().missing_bytes(log) == 0; });
  } catch (const Error&) {
    return false;  // e.g. a log that differs: send() reports it
  }
}

}  // namespace lockstep::tracking
