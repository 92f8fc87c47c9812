// One sink, fed on a thread of its own with every entry of a job: it may be slow, fail or hang
// without anyone else noticing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/system/mutex.h"
#include "tracking/agent/feed.h"

namespace lockstep::tracking {

struct SinkStatus {
  std::string name;
  bool complete = false;  // every entry is delivered, its end included
  bool gave_up = false;   // what is not delivered will not be tried again before `lockstep sync`
  uint64_t backlog = 0;   // bytes of event logs that are not delivered
  std::string problem;    // the last failure that still stands, one line; empty when none
};

// Thread: any; the object's own thread calls the sink.
class SinkThread {
 public:
  SinkThread(const Feed::SinkPart& part, Environment environment);
  // Waits for a call of the sink that is under way. A process that cannot wait ends without it
  // (std::_Exit): what was delivered is noted.
  ~SinkThread();
  SinkThread(const SinkThread&) = delete;
  SinkThread& operator=(const SinkThread&) = delete;

  // Begins to feed the entry, unless it does already.
  void add(const EntryPlan& plan);
  // Nothing more will be written to the logs of the entry. nullopt: the run goes on after all.
  void set_end(const std::string& entry, const std::optional<RunEnd>& end);

  SinkStatus status() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Work {
    explicit Work(std::unique_ptr<Feed> made) : feed(std::move(made)) {}
    std::unique_ptr<Feed> feed;  // used by the thread only
    // Under mutex_:
    std::optional<RunEnd> end;
    bool done = false, gave_up = false;
    uint64_t backlog = 0;
    std::string problem;
    Clock::time_point next_try;
    std::chrono::milliseconds pause{0};
  };

  void run();
  bool turn();
  FeedState pump(Work& work);
  void failed(Work& work, const std::string& problem, bool is_final);

  const Feed::SinkPart part_;
  const Environment environment_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Work>> works_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::tracking
