#include "tracking/copies/bucket_runs.h"

#include <fmt/format.h>

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
constexpr const char* kRemovedPrefix = ".removed-";
constexpr auto kProgressEvery = std::chrono::seconds(1);
constexpr int kMaxListings = 5;          // while the bucket changes, or a run begins
constexpr int kInsufficientSpace = 507;  // the status of a refusal

RunReceiver::Request request_of(const std::string& id) {
  return {.run = id, .sender = kBucketSender};
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

bool exists_in(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

ReceiveLimits with_silence(ReceiveLimits limits) {
  limits.silence = kBucketSilence + std::chrono::minutes(1);  // note_life() comes first
  return limits;
}

}  // namespace

Json BucketRuns::Run::stamp() const {
  Json stamp = {{"files", Json::object()}, {"logs", Json::object()}};
  for (const auto& [name, object] : files) stamp["files"][name] = {object.size, object.modified};
  for (const auto& [segment, pieces] : logs) stamp["logs"][segment] = size_of_pieces(pieces);
  return stamp;
}

// Whether the records of all ranks are still to come: the run would look lost. Or the listing has
// missed the piece of a log that was being replaced, and the next one has it.
bool BucketRuns::begins(const Run& run) const {
  return std::ranges::none_of(run.logs,
                              [](const auto& log) { return log.first.starts_with("rank-"); }) &&
         !run.has_outcome() && listed_at_ - run.modified < kBucketSilence.count();
}

bool BucketRuns::Run::has_outcome() const {
  return std::ranges::any_of(files,
                             [](const auto& file) { return is_removable_run_file(file.first); });
}

BucketRuns::BucketRuns(std::unique_ptr<formats::ObjectFolder> folder, fs::path directory,
                       const ReceiveLimits& limits)
    : folder_(std::move(folder)),
      directory_(created(std::move(directory))),
      limits_(with_silence(limits)),
      lock_(directory_) {}

void BucketRuns::stop() {
  lock_.stop();
  folder_->stop();
}

bool BucketRuns::lock(const Ids& ids) {
  if (!lock_.acquire(ids)) return false;
  if (!receiver_) use_directory();
  return true;
}

void BucketRuns::use_directory() {
  std::vector<fs::path> removed;  // by a process that was killed meanwhile
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(kRemovedPrefix)) removed.push_back(it->path());
  for (const auto& path : removed) fs::remove_all(path, error);
  const auto state = directory_ / kStateFile;
  known_ = exists_in(state) ? parse_json(read_file(state)) : Json();
  if (!known_.is_object()) known_ = Json::object();
  receiver_ = std::make_unique<RunReceiver>(directory_, limits_);
}

// After an answer of the bucket: other processes see it, and running runs remain so while the update
// takes its time.
void BucketRuns::note_progress() {
  const auto now = std::chrono::steady_clock::now();
  lock_.note_progress();
  if (now - progress_at_ < kProgressEvery) return;
  progress_at_ = now;
  receiver_->keep_running();
}

std::map<std::string, BucketRuns::Run> BucketRuns::list(const std::string& folder) {
  listed_at_ = static_cast<int64_t>(std::time(nullptr));
  auto objects = folder_->list(folder);
  note_progress();
  if (objects.size() >= formats::ObjectFolder::kMaxObjects)
    throw config_error(fmt::format(
        "{} has {} objects or more, which are not read; use another path for new runs, and keep "
        "other objects, such as those of checkpoint.mirror, elsewhere",
        folder_->path_of(""), formats::ObjectFolder::kMaxObjects));
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

// Complete ids of runs that are here: lists only these, as a bucket can have many objects of others.
std::map<std::string, BucketRuns::Run> BucketRuns::list_runs(const Ids& ids) {
  std::map<std::string, Run> runs;
  const auto is_known = [&](const auto& id) { return known_.contains(id); };
  const auto listed = std::ranges::all_of(ids, is_known) ? ids : Ids();
  for (const auto& id : listed) runs.merge(list(id));
  if (listed.empty()) runs = list("");
  remove_others(runs, listed);
  return runs;
}

// Under another name first: a kill leaves no part of a run.
void BucketRuns::forget(const std::string& id) {
  try {
    receiver_->end(request_of(id));
  } catch (const Refusal&) {
    // It has no mark of a received run, which the next one gets.
  }
  const auto removed = directory_ / (kRemovedPrefix + id);
  std::error_code error;
  fs::remove_all(removed, error);
  fs::rename(directory_ / id, removed, error);
  if (error && error != std::errc::no_such_file_or_directory)
    throw environment_error(
        fmt::format("cannot remove {}: {}", (directory_ / id).string(), error.message()));
  fs::remove_all(removed, error);
  known_.erase(id);
}

// `listed`: the ids whose objects were listed; empty: all.
void BucketRuns::remove_others(const std::map<std::string, Run>& runs, const Ids& listed) {
  std::vector<std::string> gone;
  for (const auto& [id, stamp] : known_.items())
    if (is_run_id(id) && !runs.contains(id) && (listed.empty() || std::ranges::count(listed, id)))
      gone.push_back(id);
  for (const auto& id : gone) forget(id);
}

std::string BucketRuns::read(const std::vector<LogPiece>& pieces, uint64_t begin, uint64_t end) {
  std::string bytes;
  for (const auto& piece : pieces) {
    note_progress();
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
    note_progress();
    const auto bytes = folder_->read(object);
    // The receiver keeps tags of this machine.
    std::error_code error;
    if (name == "tags.json") fs::remove(directory_ / id / name, error);
    receiver_->put_file(request_of(id), name, bytes, sha256_of(bytes));
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
  const auto age = listed_at_ - run.modified;
  const bool is_alive = !run.has_outcome() && age < kBucketSilence.count();
  if (!is_alive) return receiver_->end(request_of(id));
  for (const auto& [segment, pieces] : run.logs)
    receiver_->append(request_of(id), segment, "", size_of_pieces(pieces));
}

// What was refused is not fetched again before it changes, unless there was no space for it.
void BucketRuns::update_run(const std::string& id, const Run& run) {
  const auto stamp = run.stamp();
  if (const auto known = known_.find(id); known != known_.end() && known->contains("refused"))
    if (const auto& refused = (*known)["refused"]; refused.value("stamp", Json()) == stamp)
      throw Refusal(refused.value("status", 0), refused.value("why", ""));
  const auto directory = directory_ / id;
  if (!exists_in(directory / "run.json") || !is_received_run(directory)) forget(id);
  const auto known = known_.contains(id) ? known_[id] : Json();
  if (known != stamp) {
    known_[id] = {{"files", Json::object()}};  // until everything is here
    try {
      fetch_run(id, run, known);
    } catch (const Refusal& refusal) {
      if (refusal.status != kInsufficientSpace)
        known_[id]["refused"] = {
            {"stamp", stamp}, {"status", refusal.status}, {"why", refusal.what()}};
      throw;
    }
    known_[id] = stamp;
  }
  note_life(id, run);
}

// Returns what is wrong, by run.
std::map<std::string, std::string> BucketRuns::update_runs(const Ids& ids) {
  std::map<std::string, std::string> problems;
  std::set<std::string> done;
  for (int listing = 0; listing < kMaxListings; ++listing) {
    const auto runs = list_runs(ids);
    bool is_complete = true;
    std::erase_if(problems, [&](const auto& item) { return !done.contains(item.first); });
    for (const auto& [id, run] : runs) {
      if (done.contains(id) || !fits_any(id, ids)) continue;
      if (begins(run)) {
        is_complete = false;
        continue;
      }
      try {
        update_run(id, run);
        done.insert(id);
      } catch (const formats::StoreError& failure) {
        // A piece was replaced after the listing.
        if (failure.failure() != formats::StoreFailure::NoKey) throw;
        problems[id] = failure.what();
        is_complete = false;
      } catch (const Refusal& refusal) {
        problems[id] = refusal.what();
        done.insert(id);
      }
    }
    write_file_durably(directory_ / kStateFile, known_.dump() + "\n");
    if (is_complete) break;  // the bucket has not changed meanwhile
  }
  return problems;
}

std::vector<std::string> BucketRuns::update(const std::vector<std::string>& ids) {
  if (!lock(ids)) return {};
  const auto requests = lock_.requests();
  auto all = ids;
  for (const auto& [file, more] : requests)
    if (more.empty() || all.empty())
      all.clear();
    else
      all.insert(all.end(), more.begin(), more.end());
  const auto problems = update_runs(all);
  std::error_code error;
  for (const auto& [file, more] : requests) fs::remove(file, error);
  std::vector<std::string> texts;
  for (const auto& [id, problem] : problems)
    if (fits_any(id, ids)) texts.push_back(fmt::format("{}: {}", id, printable(problem, 300)));
  return texts;
}

bool BucketRuns::update_one(const std::string& id) {
  if (!lock({id})) return true;
  for (int listing = 0;; ++listing) {
    const auto runs = list(id);
    const auto run = runs.find(id);
    if (run == runs.end()) return false;
    if (begins(run->second)) {
      if (listing == kMaxListings) return false;
      continue;
    }
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
  const ReceiveLimits limits{.max_runs = 1,
                             .max_files = formats::ObjectFolder::kMaxObjects,
                             .max_run_bytes = INT64_MAX,
                             .min_free_bytes = 0};
  const bool is_there = BucketRuns(std::move(folder), temporary, limits).update_one(id);
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
