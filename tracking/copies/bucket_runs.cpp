#include "tracking/copies/bucket_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/run_id.h"
#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/copies/run_files.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;
using formats::ObjectInfo;

constexpr const char* kBucketSender = "bucket";
constexpr const char* kStateFile = ".state.json";  // known_
constexpr const char* kUpdatedMark = ".updated";   // its time: of the last update of all runs
constexpr auto kOtherUpdateTimeout = std::chrono::minutes(5);
constexpr int kOtherUpdatePollMs = 100;
constexpr int kMaxListings = 5;  // while the bucket changes

RunReceiver::Request request_of(const std::string& id) {
  return {.run = id, .sender = kBucketSender};
}

std::string checksum_of(const std::string& bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

bool fits_any(const std::string& id, const std::vector<std::string>& ids) {
  return ids.empty() || std::ranges::any_of(ids, [&](const auto& wanted) {
           return id.starts_with(wanted) || wanted.starts_with(id);
         });
}

fs::path created(fs::path directory) {
  make_directories(directory);
  return directory;
}

// The time of the file; the earliest one if it does not exist.
fs::file_time_type time_of(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  return error ? fs::file_time_type::min() : time;
}

}  // namespace

Json BucketRuns::Run::stamp() const {
  Json stamp = {{"files", Json::object()}, {"logs", Json::object()}};
  for (const auto& [name, object] : files) stamp["files"][name] = {object.size, object.modified};
  for (const auto& [segment, pieces] : logs) stamp["logs"][segment] = size_of_pieces(pieces);
  return stamp;
}

bool BucketRuns::Run::has_outcome() const {
  return std::ranges::any_of(files,
                             [](const auto& file) { return is_removable_run_file(file.first); });
}

BucketRuns::BucketRuns(std::unique_ptr<formats::ObjectFolder> folder, fs::path directory,
                       const ReceiveLimits& limits)
    : folder_(std::move(folder)), directory_(created(std::move(directory))), limits_(limits) {}

// False: another process has updated the directory meanwhile.
bool BucketRuns::lock() {
  if (lock_.is_open()) return true;
  const auto path = directory_ / ".lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.is_open()) throw errno_error("cannot open " + path.string());
  const auto begin = fs::file_time_type::clock::now();
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (time_of(directory_ / kUpdatedMark) > begin) return false;
    if (fs::file_time_type::clock::now() - begin > kOtherUpdateTimeout)
      throw environment_error(fmt::format(
          "{} is being written by another process, which makes no progress", directory_.string()));
    ::poll(nullptr, 0, kOtherUpdatePollMs);
  }
  lock_ = std::move(file);
  receiver_ = std::make_unique<RunReceiver>(directory_, limits_);
  std::error_code error;
  const auto state = directory_ / kStateFile;
  known_ = fs::exists(state, error) ? parse_json(read_file(state)) : Json();
  if (!known_.is_object()) known_ = Json::object();
  return true;
}

std::map<std::string, BucketRuns::Run> BucketRuns::list(const std::string& folder) {
  auto objects = folder_->list(folder);
  if (objects.size() >= formats::ObjectFolder::kMaxObjects)
    throw config_error(fmt::format("{} has more than {} objects", folder_->path_of(""),
                                   formats::ObjectFolder::kMaxObjects));
  std::map<std::string, std::vector<ObjectInfo>> by_run;
  for (auto& object : objects) {
    const auto slash = object.key.find('/');
    const auto id = object.key.substr(0, slash);
    if (slash == object.key.npos || !is_run_id(id)) continue;
    object.key.erase(0, slash + 1);
    by_run[id].push_back(std::move(object));
  }
  std::map<std::string, Run> runs;
  for (const auto& [id, of_run] : by_run) {
    Run run;
    for (const auto& object : of_run)
      if (is_run_file_name(object.key) && object.size > 0) run.files[object.key] = object;
    for (const auto& [segment, pieces] : log_pieces(of_run))
      if (auto whole = without_replaced(pieces); !whole.empty())
        run.logs[segment] = std::move(whole);
    for (const auto& [name, object] : run.files)
      run.modified = std::max(run.modified, object.modified);
    for (const auto& [segment, pieces] : run.logs)
      run.modified = std::max(run.modified, pieces.back().object.modified);
    // Keys are relative to the folder again.
    for (auto& [name, object] : run.files) object.key = id + "/" + object.key;
    for (auto& [segment, pieces] : run.logs)
      for (auto& piece : pieces) piece.object.key = id + "/" + piece.object.key;
    if (run.files.contains("run.json")) runs[id] = std::move(run);
  }
  return runs;
}

void BucketRuns::forget(const std::string& id) {
  receiver_->end(request_of(id));
  std::error_code error;
  fs::remove_all(directory_ / id, error);
  known_.erase(id);
}

void BucketRuns::remove_others(const std::map<std::string, Run>& runs) {
  std::vector<std::string> gone;
  for (const auto& [id, stamp] : known_.items())
    if (is_run_id(id) && !runs.contains(id)) gone.push_back(id);
  for (const auto& id : gone) forget(id);
}

std::string BucketRuns::read(const std::vector<LogPiece>& pieces, uint64_t begin, uint64_t end) {
  std::string bytes;
  for (const auto& piece : pieces) {
    const auto from = std::max(begin, piece.begin), to = std::min(end, piece.end);
    if (from < to)
      bytes += folder_->read(piece.object, static_cast<int64_t>(from - piece.begin),
                             static_cast<int64_t>(to - from));
  }
  return bytes;
}

// Appends what the copy does not have. False: the copy is one of another log.
bool BucketRuns::fetch_log(const std::string& id, const std::string& segment,
                           const std::vector<LogPiece>& pieces) {
  const auto copy = receiver_->log(request_of(id), segment);
  auto at = copy.size;
  if (at > size_of_pieces(pieces)) return false;
  const auto last = read(pieces, at - std::min(at, kComparedBytes), at);
  if (at > 0 && crc32c(last.data(), last.size()) != copy.end_crc) return false;
  for (const auto& piece : pieces) {
    if (piece.end <= at) continue;
    const auto bytes = read(pieces, at, piece.end);
    if (!receiver_->append(request_of(id), segment, bytes, at).fits) return false;
    at = piece.end;
  }
  return true;
}

void BucketRuns::fetch_files(const std::string& id, const Run& run, const Json& known,
                             bool is_outcome) {
  const auto stamp = run.stamp()["files"];
  const auto had = known.is_object() ? known.value("files", Json::object()) : Json::object();
  for (const auto& [name, object] : run.files) {
    if (is_removable_run_file(name) != is_outcome) continue;
    if (had.contains(name) && had[name] == stamp[name]) continue;
    if (static_cast<size_t>(object.size) > kMaxRunFileBytes)
      throw Refusal(413, fmt::format("{} has {} bytes; at most {} are read", name, object.size,
                                     kMaxRunFileBytes));
    const auto bytes = folder_->read(object);
    // The receiver keeps tags of this machine.
    std::error_code error;
    if (name == "tags.json") fs::remove(directory_ / id / name, error);
    receiver_->put_file(request_of(id), name, bytes, checksum_of(bytes));
  }
}

// In the order in which they were sent: no run looks over before its records are here.
void BucketRuns::fetch_run(const std::string& id, const Run& run, const Json& known) {
  for (const auto& name : run_files(directory_ / id))
    if (is_removable_run_file(name) && !run.files.contains(name))
      receiver_->remove_file(request_of(id), name);
  fetch_files(id, run, known, false);
  for (const auto& [segment, pieces] : run.logs)
    if (!fetch_log(id, segment, pieces)) {
      forget(id);
      throw formats::StoreError(formats::StoreFailure::NoKey, ErrorKind::Environment,
                                fmt::format("{}: the run was replaced", id));
    }
  fetch_files(id, run, known, true);
}

// An event log is locked while it has a writer.
void BucketRuns::note_life(const std::string& id, const Run& run) {
  const auto age = static_cast<int64_t>(std::time(nullptr)) - run.modified;
  const bool is_alive = !run.has_outcome() && age < kBucketSilence.count();
  if (!is_alive) return receiver_->end(request_of(id));
  for (const auto& [segment, pieces] : run.logs)
    receiver_->append(request_of(id), segment, "", size_of_pieces(pieces));
}

void BucketRuns::update_run(const std::string& id, const Run& run) {
  std::error_code error;
  if (!fs::exists(directory_ / id / "run.json", error)) forget(id);
  const auto stamp = run.stamp();
  const auto known = known_.contains(id) ? known_[id] : Json();
  if (known != stamp) {
    known_[id] = {{"files", Json::object()}};  // until everything is here
    fetch_run(id, run, known);
    known_[id] = stamp;
  }
  note_life(id, run);
}

std::vector<std::string> BucketRuns::update(const std::vector<std::string>& ids) {
  if (!lock()) return {};
  std::map<std::string, std::string> problems;
  std::set<std::string> done;
  for (int listing = 0; listing < kMaxListings; ++listing) {
    const auto runs = list("");
    if (ids.empty()) remove_others(runs);
    problems.clear();
    for (const auto& [id, run] : runs) {
      if (done.contains(id) || !fits_any(id, ids)) continue;
      try {
        update_run(id, run);
        done.insert(id);
      } catch (const formats::StoreError& failure) {
        // A piece was replaced after the listing.
        if (failure.failure() != formats::StoreFailure::NoKey) throw;
        problems[id] = failure.what();
      } catch (const Refusal& refusal) {
        problems[id] = refusal.what();
        done.insert(id);
      }
    }
    write_file_durably(directory_ / kStateFile, known_.dump() + "\n");
    if (std::ranges::all_of(problems, [&](const auto& item) { return done.contains(item.first); }))
      break;  // the bucket has not changed meanwhile
  }
  if (ids.empty()) write_file_durably(directory_ / kUpdatedMark, "");
  std::vector<std::string> texts;
  for (const auto& [id, problem] : problems)
    texts.push_back(fmt::format("{}: {}", id, printable(problem, 300)));
  return texts;
}

bool BucketRuns::update_one(const std::string& id) {
  if (!lock()) return true;
  for (int listing = 0;; ++listing) {
    const auto runs = list(id);
    const auto run = runs.find(id);
    if (run == runs.end()) return false;
    try {
      update_run(id, run->second);
      return true;
    } catch (const formats::StoreError& failure) {
      if (failure.failure() != formats::StoreFailure::NoKey || listing == kMaxListings) throw;
    } catch (const Refusal& refusal) {
      throw environment_error(fmt::format("{}: {}", id, printable(refusal.what(), 300)));
    }
  }
}

void fetch_run_of_bucket(std::unique_ptr<formats::ObjectFolder> folder, const fs::path& run_dir) {
  if (!rank_logs(run_dir).empty()) return;
  const auto id = run_dir.filename().string();
  const auto temporary = run_dir.parent_path() / (".fetching-" + id);
  std::error_code error;
  fs::remove_all(temporary, error);  // of a process that was killed
  const bool is_there = BucketRuns(std::move(folder), temporary, {.max_runs = 1}).update_one(id);
  const auto move = [&](const std::string& name) {
    if (!fs::exists(run_dir / name, error)) fs::rename(temporary / id / name, run_dir / name);
  };
  try {
    if (is_there) {
      make_directories(run_dir / "ends");
      for (const auto& name : run_files(temporary / id)) move(name);
      fs::remove(run_dir / "events", error);  // an empty one
      move("events");                         // all logs at once, last
      sync_directory(run_dir);
    }
  } catch (const fs::filesystem_error& failure) {
    throw environment_error(failure.what());
  }
  fs::remove_all(temporary, error);
}

}  // namespace lockstep::tracking
