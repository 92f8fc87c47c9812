// The workers of this node in one attempt: started together, watched, and stopped together when one
// fails or when it is asked for: SIGTERM to every worker's process group, SIGKILL after the grace.
// Thread: one, which must outlive the object.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/system/poll_set.h"
#include "launch/hangs/hang_reporter.h"
#include "launch/options/launch_options.h"
#include "launch/report/launch_report.h"
#include "launch/workers/worker_env.h"

namespace lockstep::launch {

class Console;
struct MasterSocket;

// Where the output of the workers is shown.
struct Consoles {
  Console& out;
  Console& err;
};

class WorkerGroup {
 public:
  // Starts them; their logs go to the next attempt in `log_dir`. `master`: closed once rank 0 has
  // it; when rank 0 dies, nobody may wait in its queue. Throws Config (the program cannot be
  // executed) or Environment (log directory not writable, no more processes); then no worker is
  // left.
  WorkerGroup(const LaunchOptions& options, const NodePlace& place,
              const std::filesystem::path& log_dir, MasterSocket master, Consoles consoles);
  // Kills those that are left.
  ~WorkerGroup();

  void watch(PollSet& polls);
  // Takes what happened, and does what is due. Call after each turn of the loop.
  void update();
  // Stops all; no effect when that has begun. `signal`: the one that ended the launch, which ranks
  // may record; they get SIGTERM.
  void stop(std::optional<int> signal = std::nullopt);
  // Passes a signal on to every worker; what they do with it is their business.
  void signal(int signal);
  // Ends the patience of a stop.
  void kill();

  // For as long as the group lives.
  std::vector<WatchedWorker> watched();
  const std::filesystem::path& log_directory() const { return attempt_; }

  bool is_stopping() const { return stop_time_us_.has_value(); }
  // A worker of this group failed by itself, or all have ended.
  bool has_outcome() const { return is_stopping() || all_ended(); }
  // Every worker has ended and its output was taken.
  bool is_done() const;
  // Requires is_done(). Forgets the workers.
  LaunchReport finish();

 private:
  struct Worker;

  void add_worker(const std::filesystem::path& directory, int local_rank);
  void start(Worker& worker, const MasterSocket& master);
  void take_exits();
  void enforce_deadlines();
  void give_up();
  bool all_ended() const;
  WorkerEnd describe(const Worker& worker) const;
  bool was_stopped(const WorkerEnd& end) const;

  const LaunchOptions& options_;
  NodePlace place_;
  Consoles consoles_;
  std::filesystem::path attempt_;  // where its logs are
  std::vector<std::unique_ptr<Worker>> workers_;
  std::optional<int64_t> stop_time_us_;
  std::optional<PollSet::Clock::time_point> preempt_deadline_, kill_deadline_, give_up_deadline_,
      drain_deadline_;
  std::vector<int> killed_ranks_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
