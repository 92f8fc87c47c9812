#include "launch/launcher.h"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>

#include "core/durable_file.h"
#include "core/error.h"
#include "launch/console.h"
#include "launch/error_file.h"
#include "launch/log_directory.h"
#include "launch/master_socket.h"
#include "launch/signal_watch.h"
#include "launch/worker_env.h"
#include "launch/worker_output.h"
#include "launch/worker_process.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kTorchrunPort = 29500;
constexpr milliseconds kLongestWait{1000};
constexpr milliseconds kDrainTime{
    2000};  // for output of dead workers, and for the console at the end
constexpr milliseconds kSameSignal{1000};
constexpr milliseconds kUnkillable{10'000};  // a process that survives SIGKILL hangs in the kernel

struct Worker {
  Worker(int rank_, int local_rank_, std::filesystem::path directory_, Console* out_console,
         Console* err_console)
      : rank(rank_),
        local_rank(local_rank_),
        directory(std::move(directory_)),
        out(rank, directory / "stdout.log", out_console),
        err(rank, directory / "stderr.log", err_console) {}

  int rank, local_rank;
  std::filesystem::path directory;
  WorkerOutput out, err;
  std::optional<WorkerProcess> process;
  std::optional<ProcessExit> exit;
  int64_t exit_time_us = 0;
};

// A pipe that took the number of a closed standard stream would be lost in a worker.
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

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), out_(options.stdout_fd), err_(options.stderr_fd) {}

  LaunchReport run() {
    auto master = open_master();
    const auto attempt = claim_attempt(options_.log_dir);
    for (int local_rank = 0; local_rank < options_.num_workers; ++local_rank)
      add_worker(attempt / std::to_string(local_rank), local_rank);
    for (auto& worker : workers_) start(*worker, master);
    master.fd.close();  // rank 0 has it: when it dies, nobody may wait in the queue
    while (!is_done()) {
      wait_for_events();
      take_signals();
      take_exits();
      enforce_deadlines();
    }
    finish_output();
    return make_report();
  }

 private:
  MasterSocket open_master() const {
    const bool one_node = options_.num_nodes == 1;
    const int port = options_.master_port || one_node ? options_.master_port : kTorchrunPort;
    if (options_.node_rank > 0) return {.fd = {}, .port = port};
    const bool is_local =
        options_.master_addr == "127.0.0.1" || options_.master_addr == "localhost";
    return listen_as_master(port, one_node && is_local);
  }

  void add_worker(const std::filesystem::path& directory, int local_rank) {
    make_directories(directory);
    const int rank = options_.node_rank * options_.num_workers + local_rank;
    workers_.push_back(std::make_unique<Worker>(
        rank, local_rank, directory, options_.tee.shows_stdout(local_rank) ? &out_ : nullptr,
        options_.tee.shows_stderr(local_rank) ? &err_ : nullptr));
  }

  void start(Worker& worker, const MasterSocket& master) {
    WorkerPlace place{.local_rank = worker.local_rank,
                      .master_port = master.port,
                      .listen_fd = std::nullopt,
                      .error_file = worker.directory / "error.json"};
    if (worker.rank == 0 && master.fd.is_open()) place.listen_fd = master.fd.get();
    const auto out = worker.out.take_write_end();
    const auto err = worker.err.take_write_end();
    worker.process.emplace(WorkerCommand{.program = options_.program,
                                         .arguments = options_.arguments,
                                         .environment = worker_environment(options_, place),
                                         .stdout_fd = out.get(),
                                         .stderr_fd = err.get(),
                                         .inherited_fd = place.listen_fd});
  }

  void wait_for_events() {
    std::vector<pollfd> requests = {signals_.poll_request()};
    std::vector<WorkerOutput*> outputs;
    std::vector<Console*> consoles;
    const bool take_output = !out_.is_full() && !err_.is_full();
    for (auto& worker : workers_)
      for (auto* output : {&worker->out, &worker->err})
        if (take_output && output->is_open()) {
          requests.push_back(output->poll_request());
          outputs.push_back(output);
        }
    for (auto* console : {&out_, &err_})
      if (console->has_pending()) {
        requests.push_back(console->poll_request());
        consoles.push_back(console);
      }
    if (::poll(requests.data(), requests.size(), static_cast<int>(time_to_wait().count())) < 0) {
      if (errno == EINTR) return;
      throw errno_error("cannot wait for workers");
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (requests[1 + i].revents) outputs[i]->read_some();
    for (size_t i = 0; i < consoles.size(); ++i)
      if (requests[1 + outputs.size() + i].revents) consoles[i]->write_some();
  }

  milliseconds time_to_wait() const {
    const auto left = std::chrono::ceil<milliseconds>(next_deadline_ - Clock::now());
    return std::clamp(left, milliseconds(0), kLongestWait);
  }

  // The first signal begins the stop, another one later ends the patience. What comes within a second
  // is the same: some programs signal a process and its group.
  void take_signals() {
    while (const auto signal = signals_.next()) {
      if (signalled_by_) {
        if (Clock::now() - signalled_at_ > kSameSignal) kill_all();
        continue;
      }
      signalled_by_ = signal;
      signalled_at_ = Clock::now();
      if (stop_time_us_) continue;
      interrupted_ = true;
      begin_stop();
    }
  }

  void take_exits() {
    bool failed = false;
    for (auto& worker : workers_) {
      if (worker->exit || !(worker->exit = worker->process->poll_exit())) continue;
      worker->exit_time_us = unix_time_us();
      failed = failed || worker->exit->signal || worker->exit->code != 0;
    }
    if (failed && !stop_time_us_) begin_stop();
    if (all_ended() && !drain_deadline_)
      drain_deadline_ = next_deadline_ = Clock::now() + kDrainTime;
  }

  void begin_stop() {
    stop_time_us_ = unix_time_us();
    kill_deadline_ = next_deadline_ = Clock::now() + options_.grace;
    for (auto& worker : workers_) {
      worker->process->signal_group(SIGTERM);
      worker->process->signal_group(SIGCONT);  // a stopped process would not notice
    }
  }

  void kill_all() {
    for (auto& worker : workers_) {
      if (!worker->exit && !give_up_deadline_) killed_ranks_.push_back(worker->rank);
      worker->process->signal_group(SIGKILL);
    }
    kill_deadline_.reset();
    if (!give_up_deadline_) give_up_deadline_ = Clock::now() + kUnkillable;
    next_deadline_ = *give_up_deadline_;
  }

  void enforce_deadlines() {
    const auto now = Clock::now();
    if (all_ended()) return;
    if (kill_deadline_ && now >= *kill_deadline_) kill_all();
    if (!give_up_deadline_ || now < *give_up_deadline_) return;
    for (auto& worker : workers_) {
      if (worker->exit) continue;
      notes_.push_back(
          fmt::format("rank {} (process {}) hangs in the kernel and could not be killed",
                      worker->rank, worker->process->pid()));
      worker->exit = ProcessExit{.signal = SIGKILL};
      worker->exit_time_us = unix_time_us();
    }
    drain_deadline_ = next_deadline_ = now + kDrainTime;
  }

  bool all_ended() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->exit.has_value(); });
  }

  // Somebody else may still hold the pipes: what the workers wrote is in them, so waiting for the
  // end has a limit.
  bool is_done() const {
    const auto is_drained = [](const auto& worker) {
      return !worker->out.is_open() && !worker->err.is_open();
    };
    return all_ended() && (std::all_of(workers_.begin(), workers_.end(), is_drained) ||
                           (drain_deadline_ && Clock::now() >= *drain_deadline_));
  }

  void finish_output() {
    for (auto& worker : workers_) {
      for (auto* output : {&worker->out, &worker->err}) {
        output->finish();
        if (!output->log_error().empty()) notes_.push_back(output->log_error());
      }
      worker->process->reap();
    }
    out_.flush(kDrainTime);
    err_.flush(kDrainTime);
  }

  WorkerEnd describe(const Worker& worker) const {
    WorkerEnd end{.rank = worker.rank, .local_rank = worker.local_rank, .exit = *worker.exit};
    end.time_us = worker.exit_time_us;
    end.error = read_error_file(worker.directory / "error.json");
    end.last_lines = worker.err.last_lines();
    const bool has_stderr = !end.last_lines.empty();
    if (!has_stderr) end.last_lines = worker.out.last_lines();
    end.log =
        worker.directory / (has_stderr || end.last_lines.empty() ? "stderr.log" : "stdout.log");
    end.stopped = was_stopped(end);
    return end;
  }

  // After SIGTERM was sent, an end counts as the worker's own only when it says that it failed
  // before, or crashed.
  bool was_stopped(const WorkerEnd& end) const {
    if (!stop_time_us_ || end.time_us <= *stop_time_us_) return false;
    if (end.error && end.error->timestamp_us) return end.error->timestamp_us > *stop_time_us_;
    return !end.exit.signal || *end.exit.signal == SIGTERM || *end.exit.signal == SIGKILL;
  }

  LaunchReport make_report() {
    LaunchReport report{.world_size = options_.num_nodes * options_.num_workers};
    for (const auto& worker : workers_) report.workers.push_back(describe(*worker));
    // A scheduler signals all processes of a job: a worker may die of it before the launcher gets
    // it.
    const auto* cause = report.cause();
    if (interrupted_ || (cause && signalled_by_ && cause->exit.signal == signalled_by_))
      report.interrupted_by = signalled_by_;
    if (!killed_ranks_.empty())
      notes_.push_back(fmt::format("killed because they did not end in time: rank {}",
                                   fmt::join(killed_ranks_, ", ")));
    report.notes = std::move(notes_);
    return report;
  }

  const LaunchOptions& options_;
  Console out_, err_;
  SignalWatch signals_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::optional<int> signalled_by_;
  Clock::time_point signalled_at_;
  bool interrupted_ = false;
  std::optional<int64_t> stop_time_us_;
  Clock::time_point next_deadline_ = Clock::time_point::max();
  std::optional<Clock::time_point> kill_deadline_, give_up_deadline_, drain_deadline_;
  std::vector<int> killed_ranks_;
  std::vector<std::string> notes_;
};

}  // namespace

LaunchReport run_workers(const LaunchOptions& options) {
  verify(options);
  open_standard_streams();
  return Launcher(options).run();
}

}  // namespace lockstep
