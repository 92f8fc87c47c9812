#include "cli/runs_place.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <utility>

#include "core/printable.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/copies/bucket_path.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kBucketRefresh{10}, kBucketTimeout{30}, kNoteAfter{2};
constexpr std::chrono::milliseconds kInterruptPoll{100}, kRequestPoll{500};
constexpr std::array kReadingCommands = {"list", "show", "compare", "export", "watch"};
constexpr std::string_view kDirOption = "--dir";

// Each path on each server has its own.
fs::path directory_of_copy(const std::string& path) {
  constexpr size_t kDigits = 16;
  const auto sum = tracking::sha256_of(path + "\n" + tracking::server_of_bucket(path));
  const auto name = "lockstep/runs/" + sum.substr(0, kDigits);
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

RunsPlace::RunsPlace(const std::string& dir, std::vector<std::string> ids, Keeps keeps, Warn warn)
    : written_(dir), directory_(dir), ids_(std::move(ids)), keeps_(keeps), warn_(std::move(warn)) {
  if (!is_in_store(dir)) {
    fetched_.set_value();
    return;
  }
  auto path = dir;
  while (path.ends_with('/')) path.pop_back();
  auto folder = tracking::open_bucket_folder(
      path, "", [](const std::string& name) { return environment(name.c_str()); }, kBucketTimeout);
  bucket_ = std::make_unique<tracking::BucketRuns>(std::move(folder), directory_of_copy(path));
  directory_ = bucket_->directory();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  ::pthread_setname_np(thread_.native_handle(), "bucket");
}

RunsPlace::~RunsPlace() {
  if (!bucket_) return;
  thread_.request_stop();
  bucket_->stop();
}

bool RunsPlace::wait(const std::function<bool()>& is_interrupted) {
  const auto fetched = fetched_.get_future().share();
  const auto begin = std::chrono::steady_clock::now();
  for (bool is_noted = false; fetched.wait_for(kInterruptPoll) != std::future_status::ready;) {
    if (is_interrupted && is_interrupted()) return false;
    if (is_noted || std::chrono::steady_clock::now() - begin < kNoteAfter) continue;
    is_noted = true;
    if (::isatty(STDERR_FILENO) == 1)
      fmt::print(stderr, "fetching the runs of {}\n", printable(written_, 200));
  }
  fetched.get();
  for (const auto& problem : problems()) warn_(problem);
  return true;
}

std::vector<std::string> RunsPlace::problems() const {
  const MutexLock lock(mutex_);
  return problems_;
}

std::string RunsPlace::as_written(std::string text) const {
  const auto directory = directory_.string();
  if (!bucket_) return text;
  for (auto at = text.find(directory); at != text.npos; at = text.find(directory, at)) {
    text.replace(at, directory.size(), written_);
    at += written_.size();
  }
  return text;
}

void RunsPlace::run(const std::stop_token& stop) {
  try {
    auto problems = bucket_->update(ids_);
    {
      const MutexLock lock(mutex_);
      problems_ = std::move(problems);
    }
    fetched_.set_value();
  } catch (...) {
    return fetched_.set_exception(std::current_exception());
  }
  repeat(stop);
}

// Also for commands that read once: other processes wait for this one as long as it has the directory.
void RunsPlace::repeat(const std::stop_token& stop) {
  Mutex mutex;
  std::condition_variable_any stopped;
  MutexLock lock(mutex);
  auto at = std::chrono::steady_clock::now();
  bool has_failed = false;
  while (!stopped.wait_for(lock.native(), stop, kRequestPoll, [] { return false; }) &&
         !stop.stop_requested()) {
    const bool is_due = std::chrono::steady_clock::now() - at >= kBucketRefresh;
    const bool is_wanted = (is_due || !has_failed) && bucket_->is_wanted();
    if (!is_wanted && (!is_due || keeps_ == Keeps::Once)) continue;
    std::vector<std::string> problems;
    try {
      problems = bucket_->update(ids_);
      has_failed = false;
    } catch (const std::exception& error) {
      problems = {error.what()};
      has_failed = true;
    }
    at = std::chrono::steady_clock::now();
    if (keeps_ == Keeps::UpToDate && !stop.stop_requested()) report(problems);
  }
}

void RunsPlace::report(const std::vector<std::string>& problems) {
  std::vector<std::string> earlier;
  {
    const MutexLock lock(mutex_);
    earlier = std::exchange(problems_, problems);
  }
  for (const auto& problem : problems)
    if (std::ranges::count(earlier, problem) == 0) warn_(problem);
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
  auto place = std::make_unique<RunsPlace>(*dir, ids, RunsPlace::Keeps::Once, warn);
  place->wait();
  if (ids.empty() && !has_runs(place->directory()))
    throw config_error(printable(*dir, 200) + ": has no runs that the sink `bucket` has sent");
  *dir = place->directory().string();
  return place;
}

}  // namespace lockstep::cli
