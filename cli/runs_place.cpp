#include "cli/runs_place.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <utility>

#include "core/printable.h"
#include "core/system/mutex.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/copies/bucket_path.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kBucketRefresh{10}, kBucketTimeout{30};
constexpr std::array kReadingCommands = {"list", "show", "compare", "export", "watch"};
constexpr std::string_view kDirOption = "--dir";

// Each path has its own.
fs::path directory_of_copy(const std::string& path) {
  constexpr size_t kDigits = 16;
  tracking::Sha256 sum;
  sum.add(path);
  const auto name = "lockstep/runs/" + sum.hex().substr(0, kDigits);
  if (const auto cache = environment("XDG_CACHE_HOME")) return fs::path(*cache) / name;
  if (const auto home = environment("HOME")) return fs::path(*home) / ".cache" / name;
  throw config_error("--dir: set HOME or XDG_CACHE_HOME, for the copy of the runs of a bucket");
}

bool has_runs(const fs::path& directory) {
  return std::ranges::any_of(fs::directory_iterator(directory), [](const auto& entry) {
    return !entry.path().filename().string().starts_with('.');
  });
}

// The value of --dir among the words; null if there is none.
std::string* find_dir(std::vector<std::string>& words, std::string& joined) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kDirOption && i + 1 < words.size()) return &words[i + 1];
    if (!words[i].starts_with(std::string(kDirOption) + "=")) continue;
    joined = words[i].substr(kDirOption.size() + 1);
    words[i] = kDirOption;
    return &*words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, joined);
  }
  return nullptr;
}

}  // namespace

bool is_in_store(const std::string& dir) { return dir.find("://") != dir.npos; }

RunsPlace::RunsPlace(const std::string& dir, std::vector<std::string> ids, Warn warn)
    : directory_(dir), ids_(std::move(ids)), warn_(std::move(warn)) {
  if (!is_in_store(dir)) return;
  auto path = dir;
  while (path.ends_with('/')) path.pop_back();
  bucket_ = std::make_unique<tracking::BucketRuns>(
      tracking::open_bucket_folder(
          path, "", [](const std::string& name) { return environment(name.c_str()); },
          kBucketTimeout),
      directory_of_copy(path));
  directory_ = bucket_->directory();
  update();
}

void RunsPlace::update() {
  for (const auto& problem : bucket_->update(ids_)) warn_(problem);
}

void RunsPlace::keep_in_step() {
  if (!bucket_) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    Mutex mutex;
    std::condition_variable_any stopped;
    MutexLock lock(mutex);
    while (!stopped.wait_for(lock.native(), stop, kBucketRefresh, [] { return false; }) &&
           !stop.stop_requested()) {
      try {
        update();
      } catch (const Error& error) {
        warn_(error.what());
      }
    }
  });
  ::pthread_setname_np(thread_.native_handle(), "bucket");
}

std::unique_ptr<RunsPlace> replace_bucket(std::vector<std::string>& words,
                                          const RunsPlace::Warn& warn) {
  std::string joined;
  auto* dir = find_dir(words, joined);
  if (!dir || !is_in_store(*dir)) return nullptr;
  const auto& command = words.front();
  if (std::ranges::count(kReadingCommands, command) == 0)
    throw config_error(
        fmt::format("lockstep runs {}: --dir {}: runs in a bucket can be read only; valid: list, "
                    "show, compare, export, watch",
                    printable(command, 40), printable(*dir, 200)));
  std::vector<std::string> ids;
  for (const auto& word : words)
    if (&word != dir && &word != &words.front() && !word.starts_with('-')) ids.push_back(word);
  if (command == "list") ids.clear();
  auto place = std::make_unique<RunsPlace>(*dir, ids, warn);
  if (ids.empty() && !has_runs(place->directory()))
    throw config_error(printable(*dir, 200) + ": has no runs that the sink `bucket` has sent");
  *dir = place->directory().string();
  return place;
}

}  // namespace lockstep::cli
