#include "launch/workers/worker_group.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

#include "core/system/descriptor_limit.h"
#include "core/system/durable_file.h"
#include "launch/protocol/master_socket.h"
#include "launch/warm/warm_template.h"
#include "launch/workers/console.h"
#include "launch/workers/group_worker.h"
#include "launch/workers/log_directory.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Between the first rank that exits gracefully and the others.
constexpr std::chrono::milliseconds kPreemptTime{5000};
// Between the first rank that exits with an error and others that report one: those that reject the
// same input, or the rank whose error made this one fail, and which is about to print it.
constexpr std::chrono::milliseconds kReportTime{1000};
// A process that survives SIGKILL for this long hangs in the kernel.
constexpr std::chrono::milliseconds kKillTimeout{10'000};

constexpr std::string_view kErrorLine = "lockstep-trainer: error: ";

// Per worker: its two outputs with their files, its progress page, its process, its connection.
constexpr uint64_t kDescriptorsOfWorker = 10, kReservedDescriptors = 256;

// How long the other ranks may continue, because they are expected to exit for the same reason;
// nullopt: they are stopped at once. `others_report`: one of them has reported a failure.
std::optional<std::chrono::milliseconds> time_for_others(const ProcessExit& exit,
                                                         bool others_report) {
  // The others exit at the same step, if they have received the vote.
  if (preempting_signal(exit)) return kPreemptTime;
  if (exit.signal || exit.code == 0) return std::nullopt;
  if (others_report || exit.code == static_cast<int>(ErrorKind::Config)) return kReportTime;
  return std::nullopt;
}

}  // namespace

FileDescriptor GroupWorker::try_to_share_memory() {
  try {
    return ProgressPage::make_shared_memory();
  } catch (const Error&) {
    return {};
  }
}

WorkerGroup::WorkerGroup(const LaunchOptions& options, const NodePlace& place,
                         const std::filesystem::path& attempt, MasterSocket master,
                         Consoles consoles)
    : options_(options), place_(place), consoles_(consoles), attempt_(attempt) {
  for (auto* console : {&consoles_.out, &consoles_.err}) console->keep_all();
  raise_descriptor_limit(kReservedDescriptors +
                         kDescriptorsOfWorker * static_cast<uint64_t>(num_workers()));
  if (options_.continues_on_loss) links_.emplace(place_, options_.num_workers, options_.num_spares);
  const RestartPolicy restarts({.max_restarts = options_.rank_restarts,
                                .window = options_.restart_window,
                                .delay = options_.restart_delay});
  for (int local_rank = 0; local_rank < num_workers(); ++local_rank)
    workers_.push_back(make_worker(local_rank, restarts));
  for (auto& worker : workers_) start(*worker, master);
}

WorkerGroup::~WorkerGroup() = default;

// `restarts`: of this worker, with the start for which it is made.
std::unique_ptr<WorkerGroup::Worker> WorkerGroup::make_worker(int local_rank,
                                                              const RestartPolicy& restarts) {
  const auto directory = attempt_ / start_directory(local_rank, restarts.count());
  make_directories(directory);
  const auto hides_error = [this, local_rank](std::string_view line) {
    return is_repeated(*workers_[static_cast<size_t>(local_rank)], line);
  };
  return std::make_unique<Worker>(place_.first_rank + local_rank, local_rank, directory,
                                  options_.tee.shows_stdout(local_rank) ? &consoles_.out : nullptr,
                                  options_.tee.shows_stderr(local_rank) ? &consoles_.err : nullptr,
                                  hides_error, restarts);
}

void WorkerGroup::start(Worker& worker, const MasterSocket& master) {
  const bool is_spare =
      place_.joins || worker.was_started_again() || worker.local_rank >= options_.num_workers;
  FileDescriptor group_end;
  if (links_) group_end = links_->take_worker_end(worker.local_rank);
  WorkerPlace place{.node = place_,
                    .local_rank = std::min(worker.local_rank, options_.num_workers - 1),
                    .num_workers = options_.num_workers,
                    .role = options_.role,
                    .listen_fd = std::nullopt,
                    .group_fd = std::nullopt,
                    .loss_fd = std::nullopt,
                    .is_spare = is_spare,
                    .progress_fd = worker.progress_memory.get(),
                    .error_file = worker.directory / "error.json"};
  if (worker.rank == 0 && !is_spare && master.fd.is_open() && options_.passes_master_socket)
    place.listen_fd = master.fd.get();
  if (group_end.is_open()) place.group_fd = group_end.get();
  if (links_ && links_->loss_fd(worker.local_rank) >= 0)
    place.loss_fd = links_->loss_fd(worker.local_rank);
  std::vector<int> inherited;
  for (const auto& fd : {place.group_fd, place.loss_fd, place.listen_fd})
    if (fd) inherited.push_back(*fd);
  if (place.progress_fd >= 0) inherited.push_back(place.progress_fd);
  const auto out = worker.out.take_write_end();
  const auto err = worker.err.take_write_end();
  const ChildCommand command{.program = options_.program,
                             .arguments = options_.arguments,
                             .environment = worker_environment(place),
                             .stdout_fd = out.get(),
                             .stderr_fd = err.get(),
                             .inherited_fds = inherited};
  worker.restarts.begin_attempt(Clock::now());
  auto forked = options_.warm ? options_.warm->start_worker(command) : std::nullopt;
  worker.process.emplace(forked ? std::move(*forked) : ChildProcess(command));
  worker.pid = worker.process->pid();
}

std::vector<WatchedWorker> WorkerGroup::watched() {
  std::vector<WatchedWorker> watched;
  for (auto& worker : workers_) {
    const auto rank = links_ ? links_->rank_of(worker->local_rank) : worker->rank;
    if (rank) watched.push_back({*rank, worker->process->pid(), worker->progress.get()});
  }
  return watched;
}

std::vector<pid_t> WorkerGroup::processes() const {
  std::vector<pid_t> processes;
  for (const auto* workers : {&workers_, &former_})
    for (const auto& worker : *workers) processes.push_back(worker->process->pid());
  return processes;
}

std::vector<GroupEvent> WorkerGroup::take_group_events() {
  return links_ ? links_->take_events() : std::vector<GroupEvent>();
}

void WorkerGroup::handle(const GroupState& state) {
  if (!links_) return;
  links_->handle(state);
  for (const int worker : links_->take_overdue())
    workers_[static_cast<size_t>(worker)]->process->signal_group(SIGKILL);
  for (const int worker : links_->take_unneeded())
    if (!is_stopping() && !is_joining()) end_unneeded(*workers_[static_cast<size_t>(worker)]);
}

void WorkerGroup::refuse_groups() {
  if (links_) links_->refuse_all();
}

std::vector<GroupEvent> WorkerGroup::all_group_events() const {
  auto events = links_ ? links_->all_events() : std::vector<GroupEvent>();
  if (is_stopping()) events.push_back({.kind = GroupEvent::Kind::Stopping});
  return events;
}

void WorkerGroup::report_loss() {
  if (links_) links_->report_loss();
}

void WorkerGroup::watch(PollSet& polls) {
  if (links_) links_->watch(polls);
  // Ranks that are being stopped must not wait for a console that is not read: they may have to save.
  const bool take_output = is_stopping() || (!consoles_.out.is_full() && !consoles_.err.is_full());
  for (const auto* workers : {&workers_, &former_})
    for (const auto& worker : *workers)
      for (auto* output : {&worker->out, &worker->err})
        if (take_output && output->is_open())
          polls.watch(output->poll_request(), [output](short) { output->read_some(); });
  for (const auto& deadline : {others_deadline_, kill_deadline_, give_up_deadline_})
    if (deadline) polls.wake_at(*deadline);
  // When it is over, lost workers may still be awaited.
  if (drain_deadline_ && Clock::now() < *drain_deadline_) polls.wake_at(*drain_deadline_);
  for (const auto& worker : workers_)
    if (is_awaited(*worker) && is_replaced(*worker)) polls.wake_at(worker->start_at);
  for (const auto& worker : former_) polls.wake_at(worker->drain_until);
}

void WorkerGroup::update() {
  handle_exits();
  if (links_) {
    links_->update();
    changed_ = links_->take_changed() || changed_;
  }
  start_lost_workers();
  drop_former();
  enforce_deadlines();
}

void WorkerGroup::handle_exits() {
  bool failed = false;
  for (auto& worker : workers_) {
    if (worker->exit) continue;
    worker->exit = worker->process->poll_exit();
    if (!worker->exit) continue;
    worker->exit_time_us = unix_time_us();
    if (continues_without(*worker)) continue;
    const auto patience = time_for_others(*worker->exit, is_reporting());
    if (patience && !others_deadline_) others_deadline_ = Clock::now() + *patience;
    failed = failed || (!patience && (worker->exit->signal || worker->exit->code != 0));
  }
  if (failed) stop();
  if (all_ended() && !drain_deadline_) drain_deadline_ = Clock::now() + kDrainTime;
}

// Whether a running worker has reported a failure.
bool WorkerGroup::is_reporting() const {
  return std::ranges::any_of(workers_, [](const auto& worker) {
    return !worker->exit && read_failure(*worker->progress);
  });
}

void WorkerGroup::signal(int signal) {
  for (auto& worker : workers_) worker->process->signal_group(signal);
}

void WorkerGroup::stop(std::optional<int> signal) {
  if (stop_time_us_) return;
  if (links_) links_->stop();
  if (signal)
    for (auto& worker : workers_) worker->progress->set_launch_signal(*signal);
  terminate();
}

void WorkerGroup::leave() {
  if (stop_time_us_) return;
  is_leaving_ = true;
  terminate();
}

void WorkerGroup::terminate() {
  stop_time_us_ = unix_time_us();
  kill_deadline_ = Clock::now() + options_.stop_grace;
  for (auto* console : {&consoles_.out, &consoles_.err}) console->drop_when_full();
  for (auto& worker : workers_) worker->terminate();
}

// The job has ended while it was being started. It has nothing to save. A node that joins is stopped by the
// coordinator, which knows why.
void WorkerGroup::end_unneeded(Worker& worker) {
  if (!kill_deadline_) kill_deadline_ = Clock::now() + options_.stop_grace;
  worker.terminate();
}

void WorkerGroup::kill() {
  for (auto& worker : workers_) {
    if (!worker->exit && !give_up_deadline_) killed_ranks_.push_back(worker->rank);
    worker->process->signal_group(SIGKILL);
  }
  kill_deadline_.reset();
  if (!give_up_deadline_) give_up_deadline_ = Clock::now() + kKillTimeout;
}

void WorkerGroup::enforce_deadlines() {
  const auto now = Clock::now();
  if (all_ended()) {
    others_deadline_.reset();
    kill_deadline_.reset();
    give_up_deadline_.reset();
    return;
  }
  if (others_deadline_ && now >= *others_deadline_) {
    others_deadline_.reset();
    stop();
  }
  if (kill_deadline_ && now >= *kill_deadline_) kill();
  if (give_up_deadline_ && now >= *give_up_deadline_) give_up();
}

void WorkerGroup::give_up() {
  for (auto& worker : workers_) {
    if (worker->exit) continue;
    notes_.push_back(fmt::format("rank {} (process {}) hangs in the kernel and could not be killed",
                                 worker->rank, worker->process->pid()));
    worker->process->abandon();
    worker->exit = ProcessExit{.signal = SIGKILL};
    worker->exit_time_us = unix_time_us();
  }
  give_up_deadline_.reset();
  drain_deadline_ = Clock::now() + kDrainTime;
}

bool WorkerGroup::all_ended() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->exit.has_value(); });
}

// Other processes may still hold the pipes, so the wait for their end has a timeout; the workers'
// output is already in them.
bool WorkerGroup::is_done() const {
  const auto is_drained = [](const auto& worker) {
    return !worker->out.is_open() && !worker->err.is_open();
  };
  const auto is_known = [this](const auto& worker) {
    return !worker->is_lost || is_stopping() || (is_replaced(*worker) && !is_awaited(*worker));
  };
  if (!std::all_of(workers_.begin(), workers_.end(), is_known)) return false;
  return all_ended() && (std::all_of(workers_.begin(), workers_.end(), is_drained) ||
                         (drain_deadline_ && Clock::now() >= *drain_deadline_));
}

WorkerEnd WorkerGroup::describe(const Worker& worker) const {
  WorkerEnd end{.rank = worker.rank,
                .local_rank = worker.local_rank,
                .node_rank = place_.node_rank,
                .pid = worker.pid,
                .exit = *worker.exit};
  if (place_.num_nodes > 1) end.host = options_.host;
  end.time_us = worker.exit_time_us;
  end.error = read_error_file(worker.directory / "error.json");
  if (!end.error && end.failed()) end.error = read_failure(*worker.progress);
  end.last_lines = worker.err.last_lines();
  const bool has_stderr = !end.last_lines.empty();
  if (!has_stderr) end.last_lines = worker.out.last_lines();
  end.log = worker.directory / (has_stderr || end.last_lines.empty() ? "stderr.log" : "stdout.log");
  end.stopped = was_stopped(end);
  return end;
}

// After SIGTERM was sent, an exit counts as the worker's own failure only if it crashed or reported
// an error from before.
bool WorkerGroup::was_stopped(const WorkerEnd& end) const {
  if (!stop_time_us_ || end.time_us <= *stop_time_us_) return false;
  if (end.error && end.error->timestamp_us) return end.error->timestamp_us > *stop_time_us_;
  return !end.exit.signal || *end.exit.signal == SIGTERM || *end.exit.signal == SIGKILL;
}

// Whether `line` is the error with which the worker rejects its input, and the console has shown it
// for another one.
bool WorkerGroup::is_repeated(const Worker& worker, std::string_view line) {
  if (!line.starts_with(kErrorLine)) return false;
  const auto error = worker.error();
  if (!error || error->kind != kind_name(ErrorKind::Config) ||
      line.substr(kErrorLine.size()) != error->message)
    return false;
  if (std::ranges::find(shown_errors_, error->message) != shown_errors_.end()) return true;
  shown_errors_.push_back(error->message);
  return false;
}

void WorkerGroup::end_output(Worker& worker) {
  for (auto* output : {&worker.out, &worker.err}) {
    output->finish();
    if (!output->log_error().empty()) notes_.push_back(output->log_error());
  }
}

LaunchReport WorkerGroup::finish() {
  LaunchReport report{.world_size = links_ ? links_->world_size() : place_.world_size};
  for (auto& worker : former_) end_output(*worker);
  for (auto& worker : workers_) {
    end_output(*worker);
    worker->process->reap();
    if (worker->is_harmless || is_replaced(*worker)) continue;
    report.workers.push_back(describe(*worker));
  }
  if (!killed_ranks_.empty())
    notes_.push_back(fmt::format("killed because they did not exit in time: rank {}",
                                 fmt::join(killed_ranks_, ", ")));
  report.notes = std::move(notes_);
  report.shown_errors = std::move(shown_errors_);
  former_.clear();
  workers_.clear();
  return report;
}

}  // namespace lockstep::launch
