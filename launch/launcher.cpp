#include "launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <optional>

#include "core/system/local_address.h"
#include "launch/hangs/hang_detector.h"
#include "launch/hangs/hang_reporter.h"
#include "launch/rendezvous/job_claims.h"
#include "launch/rendezvous/rendezvous_role.h"
#include "launch/signal_watch.h"
#include "launch/warm/warm_template.h"
#include "launch/workers/console.h"
#include "launch/workers/orphans.h"
#include "launch/workers/worker_group.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kFlushTimeout{2000};  // of the console, at the end
constexpr std::chrono::milliseconds kSendTimeout{1000};   // of the last messages
constexpr std::chrono::milliseconds kClaimCheck{100};
constexpr std::chrono::seconds kMovedCheck{1};

// The event loop of a node's launcher: joins the rendezvous, starts and stops the workers on
// commands of the coordinator, reports how they ended, and returns when the job has ended.
class NodeLauncher {
 public:
  // Both arguments must outlive it.
  NodeLauncher(const LaunchOptions& options, const LogDirectory& claim_logs)
      : options_(options),
        claim_logs_(claim_logs),
        out_(options.stdout_fd),
        err_(options.stderr_fd),
        hang_reporter_(options.host),
        moved_(moved_rendezvous(options)) {
    open(moved_ ? moved_->find() : std::nullopt);
  }

  LaunchReport run() {
    while (!finish_ || group_ || (coordinator_ && !coordinator_->is_done())) run_once();
    const auto deadline = PollSet::Clock::now() + kSendTimeout;
    while (client_->has_pending() && PollSet::Clock::now() < deadline) run_once();
    out_.flush(kFlushTimeout);
    err_.flush(kFlushTimeout);
    return make_report();
  }

 private:
  void open(const std::optional<Endpoint>& moved_to) {
    followed_ = moved_to;
    coordinator_.reset();  // frees the port
    auto role = open_rendezvous(options_, hang_detector_, moved_to);
    coordinator_ = std::move(role.coordinator);
    client_ = std::move(role.client);
    client_->set_ready();
  }

  // The rendezvous moves a while after the loss of its node, whose launcher may have started again by then.
  void follow_moved() {
    const auto now = PollSet::Clock::now();
    const bool has_found_it = client_->has_joined() && !coordinator_;
    if (!moved_ || has_place_ || has_found_it || signaled_by_ || finish_ || now < next_moved_check_)
      return;
    next_moved_check_ = now + kMovedCheck;
    if (const auto moved_to = moved_->find(); moved_to && moved_to != followed_) open(moved_to);
  }

  void run_once() {
    PollSet polls;
    polls.watch(signals_.poll_request(), [](short) {});
    if (coordinator_) coordinator_->watch(polls);
    client_->watch(polls);
    if (group_) group_->watch(polls);
    if (reports_status()) polls.wake_at(next_status_);
    if (options_.warm) options_.warm->watch(polls);
    if (starting_ && !starting_->place.claim.empty())
      polls.wake_at(PollSet::Clock::now() + kClaimCheck);
    for (auto* console : {&out_, &err_})
      if (console->has_pending())
        polls.watch(console->poll_request(), [console](short) { console->write_some(); });
    polls.wait();
    handle_signals();
    reap_orphans(processes());
    if (options_.continues_on_loss && options_.rendezvous.max_nodes > 1)
      client_->hold_events(group_ ? std::optional(group_->all_group_events()) : std::nullopt);
    if (coordinator_) coordinator_->update();
    if (coordinator_ && restart_error_) coordinator_->give_up_restart(*restart_error_);
    client_->update();
    if (group_) group_->update();
    if (group_ && group_->take_changed())
      hang_reporter_.begin(group_->watched(), group_->log_directory());
    handle_commands();
    follow_moved();
    start_if_possible();
    if (group_) client_->report_groups(group_->take_group_events());
    handle_exit();
    report_status();
    show_notes();
  }

  std::vector<pid_t> processes() const {
    auto all = group_ ? group_->processes() : std::vector<pid_t>();
    if (options_.warm) all.push_back(options_.warm->process());
    return all;
  }

  // The first signal stops the workers, a later one kills them. Signals within a second count as
  // one, since some programs signal both a process and its group. SIGUSR1 is for the workers: while
  // there are none, it stops the job like the others.
  void handle_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal == SIGUSR1 && (group_ || finish_)) {
        if (group_) group_->signal(*signal);
        has_forwarded_ = group_.has_value();
        continue;
      }
      const auto now = PollSet::Clock::now();
      if (std::exchange(signaled_by_, signaled_by_.value_or(*signal))) {
        if (group_ && now - signaled_at_ > kSameSignal) group_->kill();
        continue;
      }
      signaled_at_ = now;
      if (coordinator_) coordinator_->forbid_restart();
      if (group_ && group_->is_stopping()) continue;  // stopping for another reason
      interrupted_ = true;
      if (coordinator_) coordinator_->interrupt(*signal);
      if (group_ && *signal == SIGTERM && can_leave())
        group_->leave();
      else if (group_)
        group_->stop(signal);
      if (group_ && !client_->has_joined()) group_->refuse_groups();
      const bool was_starting = std::exchange(starting_, std::nullopt).has_value();
      if (was_starting || (!group_ && !coordinator_)) report_attempt({});
    }
  }

  // Whether the ranks of other nodes continue without those of this one.
  bool can_leave() const {
    return options_.continues_on_loss && !coordinator_ && client_->has_joined();
  }

  void handle_commands() {
    while (const auto command = client_->next())
      std::visit([this](const auto& any) { handle(any); }, *command);
  }

  void handle(const StopOrder&) {
    if (std::exchange(starting_, std::nullopt)) return report_attempt({});
    if (!group_) return;
    group_->stop();
    if (!client_->has_joined()) group_->refuse_groups();
  }

  void handle(const GroupState& state) {
    has_lost_coordinator_ = false;
    if (group_) group_->handle(state);
  }

  void handle(const CoordinatorLoss& loss) {
    has_lost_coordinator_ = true;
    if (group_ && loss.had_ranks) group_->report_loss();
  }

  void handle(const Takeover& takeover) {
    if (!group_ || group_->is_stopping())
      return client_->decline("this node has no ranks that could continue");
    coordinator_ = replace_coordinator(options_, takeover, *client_, hang_detector_);
    took_over_ = true;
  }

  void handle(const StackRequest& request) { hang_reporter_.handle(request); }

  void handle(const FinishMessage& finish) {
    if (!finish_) finish_ = finish;
    if (std::exchange(starting_, std::nullopt)) return report_attempt({});
    if (!group_) return;
    group_->stop(finish_->report.interrupted_by);
    if (!client_->has_joined()) group_->refuse_groups();
    // Other nodes may continue the run: these ranks must not write to it any more.
    const bool gives_way = coordinator_ && coordinator_->has_given_way();
    if (finish_->error && (has_lost_coordinator_ || gives_way)) group_->kill();
  }

  void handle(const NotServed&) {
    moved_->ignore();
    open(std::nullopt);
  }

  void handle(const NodePlace& place) {
    has_place_ = true;
    if (signaled_by_ || finish_) return report_attempt({});
    node_rank_ = place.node_rank;
    starting_ = {place, PollSet::Clock::now() + options_.share_timeout};
    start_if_possible();
  }

  // Ranks that join, but write to another directory, would continue the job apart from the others.
  void start_if_possible() {
    if (!starting_ || (options_.warm && options_.warm->is_loading())) return;
    const auto [place, deadline] = *starting_;
    const auto directory = claims_directory(options_.runs_dir, place.run_id);
    const bool is_shared = place.claim.empty() || can_see_claim(directory, place.claim);
    if (!is_shared && PollSet::Clock::now() < deadline) return;
    starting_.reset();
    if (is_shared) return start_workers(place);
    fail_to_start(place, config_error(fmt::format(
                             "--on-rank-loss continue needs a run.dir that all nodes share, but {} "
                             "does not see {}, which the others have created",
                             options_.host, (directory / place.claim).string())));
  }

  void start_workers(const NodePlace& place) {
    try {
      start_error_ = nullptr;
      group_.emplace(options_, place, claim_logs_(place.run_id, place.node_rank),
                     client_->take_master(), Consoles{out_, err_});
      has_started_ = true;
      hang_reporter_.begin(group_->watched(), group_->log_directory());
    } catch (const Error& error) {
      start_error_ = std::current_exception();
      fail_to_start(place, error);
    }
  }

  void fail_to_start(const NodePlace& place, const Error& error) {
    LaunchReport report{.world_size = place.world_size};
    report.node_failures.push_back({.node_rank = place.node_rank,
                                    .host = place.num_nodes > 1 ? options_.host : "",
                                    .reason = error.what(),
                                    .exit_code = error.exit_code()});
    report_attempt(std::move(report));
  }

  void handle_exit() {
    if (!group_ || !group_->is_done()) return;
    hang_reporter_.end();
    auto report = group_->finish();
    group_.reset();
    const auto* cause = report.cause();
    if (has_forwarded_ && coordinator_ && cause && cause->exit.signal == SIGUSR1) {
      // The workers did not handle it yet, or never do.
      signaled_by_ = signaled_by_.value_or(SIGUSR1);
      interrupted_ = true;
      coordinator_->interrupt(SIGUSR1);
    }
    report_attempt(std::move(report));
  }

  void report_attempt(LaunchReport report) {
    const bool leaves = signaled_by_ && !coordinator_;
    interrupted_ = interrupted_ || leaves;
    if (leaves) report.interrupted_by = signaled_by_;
    last_report_ = std::move(report);
    client_->report_attempt(last_report_, leaves);
    if (leaves && !finish_) finish_ = FinishMessage{.report = last_report_};
    if (!finish_ && !interrupted_) prepare_restart();
  }

  // Whether there will be one is not known yet.
  void prepare_restart() {
    try {
      client_->set_ready();
    } catch (const Error& error) {
      if (!coordinator_) throw;
      restart_error_ = error;
    }
  }

  // While ranks are being stopped, their status is not meaningful.
  bool reports_status() const { return group_ && !group_->is_stopping(); }

  void report_status() {
    const auto now = PollSet::Clock::now();
    if (!reports_status() || now < next_status_) return;
    next_status_ = now + options_.monitor_interval;
    hang_reporter_.write_due_dump();
    if (auto views = hang_reporter_.next_views()) client_->report_status({std::move(*views)});
  }

  void show_notes() {
    for (const auto& note : hang_detector_.take_notes()) err_.write_note(note);
    for (const auto& note : hang_reporter_.take_notes()) err_.write_note(note);
    for (const auto& note : client_->take_notes()) err_.write_note(note);
    if (!coordinator_) return;
    for (const auto& note : coordinator_->take_notes()) err_.write_note(note);
  }

  LaunchReport make_report() {
    if (finish_->error)
      throw Error(finish_->error->kind == kind_name(ErrorKind::Config) ? ErrorKind::Config
                                                                       : ErrorKind::Environment,
                  finish_->error->message);
    auto report = std::move(finish_->report);
    if (start_error_ && !has_started_ && !report.interrupted_by)
      std::rethrow_exception(start_error_);
    report.node_rank = node_rank_;
    report.is_console_complete = last_report_.is_console_complete =
        out_.is_complete() && err_.is_complete();
    const auto* failed = report.cause();
    const bool is_reported = failed && !failed->hang.empty();
    if (const auto hang = hang_detector_.unresolved();
        !hang.empty() && !report.succeeded() && !is_reported)
      report.notes.push_back(hang);
    report.serves = last_report_.serves = coordinator_ != nullptr;
    report.shown_errors = last_report_.shown_errors;
    report.took_over = last_report_.took_over = took_over_;
    if (!interrupted_) {
      // A scheduler signals all processes of a job: a worker may die of it before the launcher
      // receives it.
      const auto* cause = report.cause();
      if (cause && signaled_by_ && cause->exit.signal == signaled_by_)
        report.interrupted_by = signaled_by_;
      return report;
    }
    last_report_.interrupted_by = signaled_by_;
    last_report_.restarts = report.restarts;
    last_report_.run_id = report.run_id;
    last_report_.node_rank = node_rank_;
    return last_report_;
  }

  const LaunchOptions& options_;
  const LogDirectory& claim_logs_;
  Console out_, err_;
  SignalWatch signals_;
  HangReporter hang_reporter_;
  HangDetector hang_detector_;
  std::unique_ptr<Coordinator> coordinator_;  // null unless this node serves the rendezvous
  std::unique_ptr<RendezvousClient> client_;
  std::optional<MovedRendezvous> moved_;
  PollSet::Clock::time_point next_moved_check_;
  std::optional<Endpoint> followed_;  // where it had moved
  bool has_place_ = false;            // in a job, whose coordinator says where the rendezvous moves
  std::optional<WorkerGroup> group_;
  struct Starting {
    NodePlace place;
    PollSet::Clock::time_point deadline;  // until which this node sees the files of the others
  };
  std::optional<Starting> starting_;
  int node_rank_ = 0;
  bool has_lost_coordinator_ = false;  // and no other one is known yet
  bool took_over_ = false;

  std::optional<int> signaled_by_;
  PollSet::Clock::time_point signaled_at_;
  bool interrupted_ = false;
  bool has_forwarded_ = false;          // SIGUSR1, to the workers
  LaunchReport last_report_;            // of the workers of this node
  std::exception_ptr start_error_;      // why they could not be started
  bool has_started_ = false;            // any workers
  std::optional<Error> restart_error_;  // why they cannot be started again
  std::optional<FinishMessage> finish_;
  PollSet::Clock::time_point next_status_;
};

}  // namespace

void open_standard_streams() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) throw errno_error("cannot open /dev/null");
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
  }
}

LaunchReport run_workers(const LaunchOptions& options, const LogDirectory& claim_logs) {
  verify(options);
  open_standard_streams();
  auto named = options;
  if (named.host.empty()) named.host = own_host_name();
  return NodeLauncher(named, claim_logs).run();
}

}  // namespace lockstep::launch
