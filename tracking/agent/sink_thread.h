// Feeds one sink with every entry of a job on its own thread, so that a slow, failing or hanging
// sink does not affect others.
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
  bool complete = false;  // every entry is delivered, including its end
  bool gave_up = false;   // the rest is not retried until `lockstep sync`
  uint64_t backlog = 0;   // bytes of event logs that are not delivered
  std::string problem;    // the current failure, one line; empty if none
};

// Thread: any; an internal thread calls the sink.
class SinkThread {
 public:
  SinkThread(const Feed::SinkPart& part, Environment environment);
  // Waits for a sink call in progress. A process that cannot wait exits with std::_Exit: delivered
  // positions are stored.
  ~SinkThread();
  SinkThread(const SinkThread&) = delete;
  SinkThread& operator=(const SinkThread&) = delete;

  // Starts to feed the entry. If it is fed already, only adds its logs that are new.
  void add(const EntryPlan& plan);
  // Nothing more will be written to the logs of the entry. nullopt: the run continues.
  void set_end(const std::string& entry, const std::optional<RunEnd>& end);

  SinkStatus status() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    explicit Entry(std::unique_ptr<Feed> entry_feed) : feed(std::move(entry_feed)) {}
    std::unique_ptr<Feed> feed;  // used only by the thread
    // Under mutex_:
    std::optional<RunEnd> end;
    std::vector<std::filesystem::path> logs_to_add;
    bool done = false, gave_up = false;
    uint64_t backlog = 0;
    std::string problem;
    Clock::time_point next_retry;
    std::chrono::milliseconds backoff{0};
  };

  void run();
  bool pump_all();
  bool is_due(const Entry& entry) const REQUIRES(mutex_);
  FeedState pump(Entry& entry);
  void record_failure(Entry& entry, const std::string& problem, bool is_final,
                      std::chrono::seconds pause = {});

  const Feed::SinkPart part_;
  const Environment environment_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);
  Clock::time_point not_before_ GUARDED_BY(mutex_);  // requested by the server (RetryLater)
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::tracking
