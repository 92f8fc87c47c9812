// The workers of this node in one attempt. They are started together, and stopped together when one
// fails or on request: SIGTERM to every worker's process group, then SIGKILL after the grace
// period. With --on-rank-loss continue, one that is killed is started again as a spare, when the others
// have continued. Thread: one, which must outlive the object.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/system/poll_set.h"
#include "launch/hangs/hang_reporter.h"
#include "launch/options/launch_options.h"
#include "launch/report/launch_report.h"
#include "launch/workers/group_links.h"
#include "launch/environment/worker_env.h"

namespace lockstep::launch {

class Console;
class RestartPolicy;
struct GroupWorker;
struct MasterSocket;

// Where the workers' output is shown.
struct Consoles {
  Console& out;
  Console& err;
};

class WorkerGroup {
 public:
  // Starts them, with logs in `attempt`, an empty directory. `master`: closed here once
  // rank 0 has inherited it, so that connections fail when rank 0 dies. Throws Config (the program
  // cannot be executed) or Environment (log directory not writable, no more processes); no worker
  // is left then.
  WorkerGroup(const LaunchOptions& options, const NodePlace& place,
              const std::filesystem::path& attempt, MasterSocket master, Consoles consoles);
  // Kills the remaining workers.
  ~WorkerGroup();

  void watch(PollSet& polls);
  // Handles exits and expired deadlines. Call after each poll.
  void update();
  // Stops all; no effect if already stopping. `signal`: the one that stopped the launch, which
  // ranks may record; they receive SIGTERM.
  void stop(std::optional<int> signal = std::nullopt);
  // Stops all, as if each got SIGTERM from elsewhere: with --on-rank-loss continue, the ranks of other
  // nodes continue after a step.
  void leave();
  // Forwards a signal to every worker.
  void signal(int signal);
  // Sends SIGKILL without waiting for the grace period.
  void kill();

  // The ranks of the current group. Valid until update(), if take_changed() is true then.
  std::vector<WatchedWorker> watched();
  // Whether other workers are ranks than at the last call, or have other ranks.
  bool take_changed() { return std::exchange(changed_, false); }
  const std::filesystem::path& log_directory() const { return attempt_; }
  std::vector<pid_t> processes() const;

  // With --on-rank-loss continue: for the coordinator, since the last call, and from it.
  std::vector<GroupEvent> take_group_events();
  void handle(const GroupState& state);
  // The coordinator does not answer any more.
  void refuse_groups();
  // For a coordinator that replaces the last one: everything so far.
  std::vector<GroupEvent> all_group_events() const;
  // Ranks were lost with the coordinator's node.
  void report_loss();

  bool is_stopping() const { return stop_time_us_.has_value(); }
  // Every worker has exited and its output has been read; of lost ones it is known whether the others
  // continue.
  bool is_done() const;
  // Requires is_done(). Releases the workers.
  LaunchReport finish();

 private:
  using Worker = GroupWorker;
  using Clock = PollSet::Clock;

  int num_workers() const { return options_.num_workers + options_.num_spares; }
  std::unique_ptr<Worker> make_worker(int local_rank, const RestartPolicy& restarts);
  void start(Worker& worker, const MasterSocket& master);
  void terminate();
  void end_unneeded(Worker& worker);
  void handle_exits();
  bool continues_without(Worker& worker);
  bool is_before_training(const Worker& worker) const;
  bool has_finished(const Worker& worker) const;
  bool is_late(const Worker& worker) const;
  bool is_joining() const;
  bool is_startable(Worker& worker) const;
  static bool plan_start(Worker& worker);
  bool is_replaced(const Worker& worker) const;
  bool is_awaited(const Worker& worker) const;
  void start_lost_workers();
  void drop_former();
  void start_again(std::unique_ptr<Worker>& lost);
  void end_output(Worker& worker);
  void enforce_deadlines();
  void give_up();
  bool is_reporting() const;
  bool all_ended() const;
  WorkerEnd describe(const Worker& worker) const;
  bool was_stopped(const WorkerEnd& end) const;
  bool is_repeated(const Worker& worker, std::string_view line);

  const LaunchOptions& options_;
  NodePlace place_;
  Consoles consoles_;
  std::filesystem::path attempt_;                 // where its logs are
  std::vector<std::unique_ptr<Worker>> workers_;  // the spares last
  std::vector<std::unique_ptr<Worker>> former_;   // have ended; there is output of them to read
  std::optional<GroupLinks> links_;               // with --on-rank-loss continue
  bool changed_ = false, is_leaving_ = false;
  std::optional<int64_t> stop_time_us_;
  std::optional<PollSet::Clock::time_point> others_deadline_, kill_deadline_, give_up_deadline_,
      drain_deadline_;
  std::vector<int> killed_ranks_;
  std::vector<std::string> notes_;
  std::vector<std::string> shown_errors_;  // as in LaunchReport
};

}  // namespace lockstep::launch
