#include "tracking/agent/sink_thread.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr auto kPollLogsEvery = std::chrono::milliseconds(500);  // sinks flush once a second
constexpr auto kFirstPause = std::chrono::milliseconds(500);
constexpr auto kMaxPause = std::chrono::milliseconds(30'000);

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

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
  if (works_.contains(plan.id)) return;
  works_[plan.id] = std::make_shared<Work>(std::make_unique<Feed>(part_, plan, environment_));
  changed_.notify_all();
}

void SinkThread::set_end(const std::string& entry, const std::optional<RunEnd>& end) {
  const MutexLock lock(mutex_);
  const auto it = works_.find(entry);
  if (it == works_.end()) return;
  it->second->end = end;
  it->second->done = false;
  it->second->next_try = {};
  changed_.notify_all();
}

SinkStatus SinkThread::status() const {
  const MutexLock lock(mutex_);
  SinkStatus status{.name = part_.name(), .complete = true};
  for (const auto& [id, work] : works_) {
    status.complete &= work->done;
    status.gave_up |= work->gave_up;
    status.backlog += work->backlog;
    if (!work->problem.empty()) status.problem = work->problem;
  }
  return status;
}

void SinkThread::run() {
  while (true) {
    const bool more = turn();
    MutexLock lock(mutex_);
    if (!more) changed_.wait_for(lock.native(), kPollLogsEvery);
    if (stop_) return;
  }
}

// One look at every entry. Returns whether there is more to do at once.
bool SinkThread::turn() {
  std::vector<std::shared_ptr<Work>> due;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, work] : works_)
      if (!work->done && !work->gave_up && Clock::now() >= work->next_try) due.push_back(work);
  }
  bool more = false;
  for (const auto& work : due) {
    more |= pump(*work) == FeedState::More;
    const MutexLock lock(mutex_);
    if (stop_) return false;
  }
  return more;
}

FeedState SinkThread::pump(Work& work) {
  std::optional<RunEnd> end;
  {
    const MutexLock lock(mutex_);
    end = work.end;
  }
  try {
    const auto state = work.feed->pump(end);
    const MutexLock lock(mutex_);
    work.done = state == FeedState::Done;
    work.problem.clear();
    work.pause = {};
    work.backlog = work.feed->backlog();
    return state;
  } catch (const Error& error) {
    failed(work, error.what(), error.kind() == ErrorKind::Config);
  } catch (const std::exception& error) {
    failed(work, error.what(), false);
  }
  return FeedState::Waiting;
}

void SinkThread::failed(Work& work, const std::string& problem, bool is_final) {
  const auto backlog = work.feed->backlog();
  const MutexLock lock(mutex_);
  work.problem = first_line(problem);
  work.gave_up = is_final;
  work.backlog = backlog;
  work.pause = std::clamp(work.pause * 2, kFirstPause, kMaxPause);
  work.next_try = Clock::now() + work.pause;
}

}  // namespace lockstep::tracking
