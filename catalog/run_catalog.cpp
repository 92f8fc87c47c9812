#include "catalog/run_catalog.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "catalog/index/catalog_index.h"
#include "catalog/run_files.h"
#include "catalog/run_stamp.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"

namespace lockstep::catalog {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPollEvery = std::chrono::milliseconds(500);
constexpr auto kReadSlice = std::chrono::milliseconds(250);  // then running runs are polled
constexpr size_t kCheckedPerPoll = 500;
constexpr int kOpenedAhead = 4;
// Reading fewer runs takes no longer than reading an index of them.
constexpr size_t kMinIndexed = 200;
constexpr auto kKeepEvery = std::chrono::minutes(5);
constexpr size_t kMaxOpenLogs = 512, kMaxChanges = 200, kMaxRemoved = 1000;

}  // namespace

RunCatalog::RunCatalog(fs::path runs, ColumnSpool& spool, CatalogReading reading)
    : directory_(std::move(runs)),
      spool_(spool),
      reading_(reading),
      number_(static_cast<uint64_t>(tracking::unix_now() * 1000)),
      first_number_(number_) {
  if (reading != CatalogReading::OnRequest) thread_ = std::jthread([this] { work(); });
}

RunCatalog::~RunCatalog() { stop(); }

void RunCatalog::stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void RunCatalog::work() {
  bool is_first = true, is_reading = true;
  while (true) {
    const auto begin = Clock::now();
    try {
      find_runs();
      if (std::exchange(is_first, false)) load_index();
      follow_live();
      read_new();
      check_some();
      drop_unused();
      keep_index();
    } catch (const Error&) {
      // A full disk or a deleted directory: known runs remain, and the next round retries.
    }
    MutexLock lock(mutex_);
    const bool more =
        std::ranges::any_of(jobs_, [](const auto& job) { return !job.second.is_known(); });
    if (std::exchange(is_reading, more) && !more) {  // the progress that clients show is complete
      ++number_;
      changed_.notify_all();
    }
    const auto until = more ? begin : begin + kPollEvery;
    while (!stopping_ && Clock::now() < until) changed_.wait_until(lock.native(), until);
    if (stopping_) return;
  }
}

void RunCatalog::find_runs() {
  const auto stamp = stamp_of_directory(directory_);
  if (stamp == root_stamp_) return;
  const auto before = number();
  std::map<std::string, double> found;
  std::error_code error;
  bool unfinished = false;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    const auto name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    if (is_run(it->path(), Links::Refuse)) found.emplace(name, directory_time(it->path()));
    // A run that is being created has its directory before its files.
    else if (tracking::unix_now() - directory_time(it->path()) < 60)
      unfinished = true;
  }
  std::vector<std::string> gone;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, modified] : found)
      if (!was_removed_since(before, name)) jobs_[name].modified = modified;
    was_searched_ = true;
    for (const auto& [name, job] : jobs_)
      if (!error && !found.contains(name)) gone.push_back(name);
  }
  for (const auto& name : gone) forget(name);
  if (!error && !unfinished) root_stamp_ = stamp;
}

// The table is complete before the runs' files are checked.
void RunCatalog::load_index() {
  if (reading_ == CatalogReading::AllAndKeep)
    remove_unfinished_indexes(catalog_index_path(directory_));
  auto runs = read_catalog_index(catalog_index_path(directory_), names_);
  const MutexLock lock(mutex_);
  for (auto& [summary, stamp] : runs) {
    const auto it = jobs_.find(summary.id);
    if (it == jobs_.end() || it->second.snapshot) continue;
    summary.dir = directory_ / summary.id;
    it->second.stamp = stamp;
    it->second.checked = false;
    set_snapshot(it->second, std::move(summary));
  }
}

void RunCatalog::keep_index() {
  if (reading_ != CatalogReading::AllAndKeep || Clock::now() < keep_next_) return;
  std::vector<std::pair<RunSnapshot, uint64_t>> settled;
  uint64_t num_settled = 0;
  {
    const MutexLock lock(mutex_);
    num_settled = num_settled_;
    if (num_settled == num_kept_ || jobs_.size() < kMinIndexed) return;
    for (const auto& [name, job] : jobs_) {
      if (!job.is_known()) return;
      if (!job.live) settled.emplace_back(job.snapshot, job.stamp);
    }
  }
  keep_next_ = Clock::now() + kKeepEvery;
  write_catalog_index(catalog_index_path(directory_), settled, names_);
  num_kept_ = num_settled;
}

// Unknown runs first, then those known only from the index; newest first in both.
void RunCatalog::read_new() {
  std::vector<std::tuple<bool, double, std::string>> unread;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, job] : jobs_)
      if (!job.is_known()) unread.emplace_back(!job.snapshot, job.modified, name);
  }
  std::ranges::sort(unread, std::greater());
  const auto until = Clock::now() + kReadSlice;
  for (const auto& [is_new, modified, name] : unread) {
    check(name, opened_ahead_++ < kOpenedAhead);
    if (Clock::now() > until) return;
  }
}

// Reads a run, unless its files are unchanged since the index was written.
void RunCatalog::check(const std::string& id, bool with_columns) {
  const auto stamp = stamp_of(directory_ / id);
  {
    const MutexLock lock(mutex_);
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) return;
    auto& job = it->second;
    if (job.snapshot && !job.checked && !with_columns && job.stamp == stamp) {
      job.checked = true;
      return;
    }
  }
  read(id, with_columns);
}

void RunCatalog::follow_live() {
  std::vector<std::string> live;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, job] : jobs_)
      if (job.live) live.push_back(name);
  }
  for (const auto& name : live) read(name);
}

void RunCatalog::check_some() {
  std::vector<std::pair<std::string, uint64_t>> some;
  {
    const MutexLock lock(mutex_);
    auto it = jobs_.upper_bound(checked_to_);
    for (size_t i = 0; i < std::min(kCheckedPerPoll, jobs_.size()); ++i) {
      if (it == jobs_.end()) it = jobs_.begin();
      if (it->second.is_known() && !it->second.live) some.emplace_back(it->first, it->second.stamp);
      checked_to_ = (it++)->first;
    }
  }
  for (const auto& [name, stamp] : some)
    if (stamp_of(directory_ / name) != stamp) read(name);
}

void RunCatalog::drop_unused() {
  const MutexLock lock(mutex_);
  std::vector<std::pair<uint64_t, Job*>> open;
  size_t num_logs = 0;
  for (auto& [name, job] : jobs_) {
    if (!job.logs) continue;
    if (!job.live && !job.logs->has_columns()) {
      job.logs.reset();
      continue;
    }
    open.emplace_back(job.used, &job);
    num_logs += job.snapshot ? job.snapshot->sources.size() : 0;
  }
  std::ranges::sort(open);
  for (auto& [used, job] : open) {
    if (num_logs <= kMaxOpenLogs) return;
    num_logs -= job->snapshot ? job->snapshot->sources.size() : 0;
    job->logs.reset();
  }
}

// Reads new records of a run, or all of it. `force`: even if nothing seems to have changed.
void RunCatalog::read(const std::string& id, bool with_columns, bool force) {
  std::shared_ptr<RunLogs> logs;
  std::shared_ptr<Mutex> turn;
  {
    const MutexLock lock(mutex_);
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) return;
    if (!it->second.logs)
      it->second.logs =
          std::make_shared<RunLogs>(directory_ / id, names_, with_columns ? &spool_ : nullptr);
    logs = it->second.logs;
    turn = it->second.turn;
  }
  // Results of an earlier read never replace those of a later one. Locked before mutex_, so that
  // only readers of the same run wait.
  const MutexLock read_order(*turn);
  RunSnapshot before;
  uint64_t stamp_before = 0;
  {
    const MutexLock lock(mutex_);
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) return;
    if (force) it->second.stamp = 0;
    if (it->second.checked) before = it->second.snapshot;
    stamp_before = it->second.stamp;
  }
  const auto stamp = stamp_of(directory_ / id);  // first: later changes give another stamp
  const bool changed = logs->catch_up();
  if (before && !changed && stamp == stamp_before) return;
  auto summary = summarize_run(*logs, names_);
  const MutexLock lock(mutex_);
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  auto& job = it->second;
  const bool is_as_indexed = !job.checked && job.stamp == stamp;
  job.stamp = stamp;
  job.checked = true;
  job.live = std::ranges::any_of(summary.sources, [](const SourceSummary& source) {
    return source.state == RunState::Running;
  });
  if (!job.live && !is_as_indexed) ++num_settled_;
  // Another thread may have dropped or opened them in the meantime.
  if (!job.live && job.logs && !job.logs->has_columns()) job.logs.reset();
  set_snapshot(job, std::move(summary));
}

void RunCatalog::set_snapshot(Job& job, RunSummary summary) {
  summary.version = job.snapshot ? job.snapshot->version + 1 : 1;
  summary.changed = ++number_;
  job.snapshot = std::make_shared<const RunSummary>(std::move(summary));
  changed_.notify_all();
}

void RunCatalog::forget(const std::string& id) {
  const MutexLock lock(mutex_);
  if (jobs_.erase(id) == 0) return;
  ++num_settled_;
  removed_.emplace_back(++number_, id);
  if (removed_.size() > kMaxRemoved) {
    first_number_ = removed_.front().first;
    removed_.erase(removed_.begin());
  }
  changed_.notify_all();
}

bool RunCatalog::was_removed_since(uint64_t number, const std::string& id) const {
  const auto number_of = [](const auto& removed) { return removed.first; };
  const auto later = std::ranges::upper_bound(removed_, number, {}, number_of);
  return std::any_of(later, removed_.end(),
                     [&](const auto& removed) { return removed.second == id; });
}

std::vector<RunSnapshot> RunCatalog::all() const {
  std::vector<RunSnapshot> runs;
  {
    const MutexLock lock(mutex_);
    runs.reserve(jobs_.size());
    for (const auto& [name, job] : jobs_)
      if (job.snapshot) runs.push_back(job.snapshot);
  }
  std::ranges::stable_sort(runs, std::greater(),
                           [](const RunSnapshot& run) { return run->info.created; });
  return runs;
}

// Adds a run that exists but has not been found yet.
bool RunCatalog::add(const std::string& id) {
  uint64_t before = 0;
  {
    const MutexLock lock(mutex_);
    if (jobs_.contains(id)) return true;
    before = number_;
  }
  if (id.find('/') != std::string::npos || !is_inner_path(id) ||
      !is_run(directory_ / id, Links::Refuse))
    return false;
  const MutexLock lock(mutex_);
  if (was_removed_since(before, id)) return false;
  jobs_[id].modified = directory_time(directory_ / id);
  return true;
}

RunSnapshot RunCatalog::find(const std::string& id) {
  if (!add(id)) return nullptr;
  for (const bool again : {false, true}) {
    {
      const MutexLock lock(mutex_);
      const auto it = jobs_.find(id);
      if (it != jobs_.end() && it->second.is_known()) return it->second.snapshot;
      if (it == jobs_.end() || again) return nullptr;
    }
    check(id, true);
  }
  return nullptr;
}

std::shared_ptr<RunLogs> RunCatalog::open(const std::string& id) {
  if (!add(id)) return nullptr;
  std::shared_ptr<RunLogs> logs;
  {
    const MutexLock lock(mutex_);
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) return nullptr;
    auto& job = it->second;
    job.used = ++uses_;
    if (!job.logs || !job.logs->has_columns())
      job.logs = std::make_shared<RunLogs>(directory_ / id, names_, &spool_);
    logs = job.logs;
  }
  logs->read_once();
  return logs;
}

void RunCatalog::refresh(const std::string& id) {
  if (!is_run(directory_ / id, Links::Refuse)) return forget(id);
  read(id, false, true);
}

CatalogProgress RunCatalog::progress() const {
  const MutexLock lock(mutex_);
  const auto done =
      std::ranges::count_if(jobs_, [](const auto& job) { return job.second.is_known(); });
  // Before the first scan there may be one.
  return {.done = static_cast<size_t>(done),
          .total = was_searched_ ? jobs_.size() : std::max<size_t>(jobs_.size(), 1)};
}

uint64_t RunCatalog::number() const {
  const MutexLock lock(mutex_);
  return number_;
}

CatalogChanges RunCatalog::changes_since(uint64_t number) const {
  const MutexLock lock(mutex_);
  CatalogChanges changes{.number = number_};
  if (number == 0) return changes;
  changes.reset = number < first_number_ || number > number_;
  for (const auto& [name, job] : jobs_) {
    if (changes.reset) break;
    if (!job.snapshot || job.snapshot->changed <= number) continue;
    if (changes.runs.size() == kMaxChanges) changes.reset = true;
    changes.runs.push_back(job.snapshot);
  }
  for (const auto& [when, id] : removed_)
    if (when > number) changes.removed.push_back(id);
  if (changes.reset) changes.runs.clear();
  return changes;
}

void RunCatalog::wait(uint64_t number, std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  changed_.wait_for(lock.native(), timeout,
                    [&]() REQUIRES(mutex_) { return stopping_ || number_ > number; });
}

}  // namespace lockstep::catalog
