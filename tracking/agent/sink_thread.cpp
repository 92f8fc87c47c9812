#include "tracking/agent/sink_thread.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/error.h"
#include "tracking/http/retry_later.h"

namespace lockstep::tracking {
namespace {

constexpr auto kPollLogsEvery = std::chrono::milliseconds(500);  // sinks flush once a second
constexpr auto kMinBackoff = std::chrono::milliseconds(500);
constexpr auto kMaxBackoff = std::chrono::milliseconds(30'000);

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Whether a file or directory may not be written or read: see errno_error().
bool is_denied(const std::string& problem) {
  return std::ranges::any_of(std::array{EACCES, EROFS},
                             [&](int error) { return problem.ends_with(std::strerror(error)); });
}

}  // namespace

SinkThread::SinkThread(const Feed::SinkPart& part, Environment environment)
    : part_(part), environment_(std::move(environment)), thread_([this] { run(); }) {}

SinkThread::~SinkThread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SinkThread::add(const EntryPlan& plan) {
  const MutexLock lock(mutex_);
  if (const auto known = entries_.find(plan.id); known != entries_.end()) {
    known->second->logs_to_add = plan.others;
    known->second->logs_to_add.push_back(plan.log);  // of a lower rank, which was not there before
  } else {
    entries_[plan.id] = std::make_shared<Entry>(std::make_unique<Feed>(part_, plan, environment_));
  }
  changed_.notify_all();
}

void SinkThread::set_end(const std::string& id, const std::optional<RunEnd>& end) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  it->second->end = end;
  it->second->done = false;
  it->second->next_retry = {};
  changed_.notify_all();
}

SinkStatus SinkThread::status() const {
  const MutexLock lock(mutex_);
  SinkStatus status{.name = part_.name(), .complete = true};
  for (const auto& [id, entry] : entries_) {
    status.complete &= entry->done;
    status.gave_up |= entry->gave_up;
    status.backlog += entry->backlog;
    if (!entry->problem.empty()) status.problem = entry->problem;
  }
  return status;
}

void SinkThread::run() {
  while (true) {
    const bool more = pump_all();
    MutexLock lock(mutex_);
    if (!more) changed_.wait_for(lock.native(), kPollLogsEvery);
    if (stop_) return;
  }
}

bool SinkThread::is_due(const Entry& entry) const {
  return !entry.done && !entry.gave_up && Clock::now() >= std::max(entry.next_retry, not_before_);
}

// Pumps each entry that is due once. Returns whether more records are available already.
bool SinkThread::pump_all() {
  std::vector<std::shared_ptr<Entry>> due;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, entry] : entries_)
      if (is_due(*entry)) due.push_back(entry);
  }
  bool more = false;
  for (const auto& entry : due) {
    {
      const MutexLock lock(mutex_);
      if (stop_) return false;
      if (!is_due(*entry)) continue;  // the server requested a pause
    }
    more |= pump(*entry) == FeedState::More;
  }
  return more;
}

FeedState SinkThread::pump(Entry& entry) {
  std::optional<RunEnd> end;
  {
    const MutexLock lock(mutex_);
    end = entry.end;
    entry.feed->add_logs(std::exchange(entry.logs_to_add, {}));
  }
  try {
    const auto state = entry.feed->pump(end);
    const MutexLock lock(mutex_);
    entry.done = state == FeedState::Done;
    entry.problem.clear();
    entry.backoff = {};
    entry.backlog = entry.feed->backlog();
    return state;
  } catch (const RetryLater& busy) {
    record_failure(entry, busy.what(), false, busy.pause());
  } catch (const Error& error) {
    record_failure(entry, error.what(), error.kind() == ErrorKind::Config);
  } catch (const std::exception& error) {
    record_failure(entry, error.what(), false);
  } catch (...) {  // of a plugin
    record_failure(entry, "an exception of an unknown type", false);
  }
  return FeedState::Waiting;
}

void SinkThread::record_failure(Entry& entry, const std::string& problem, bool is_final,
                                std::chrono::seconds pause) {
  const auto backlog = entry.feed->backlog();
  const MutexLock lock(mutex_);
  entry.problem = first_line(problem);
  // The permissions may still change while the run continues.
  entry.gave_up = is_final || (entry.end && is_denied(entry.problem));
  entry.backlog = backlog;
  entry.backoff = std::clamp(entry.backoff * 2, kMinBackoff, kMaxBackoff);
  entry.next_retry = Clock::now() + entry.backoff;
  not_before_ = std::max(not_before_, Clock::now() + pause);
}

}  // namespace lockstep::tracking
