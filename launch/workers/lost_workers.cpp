// Workers that are lost while the others continue (--on-rank-loss continue), and are started again.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launch/protocol/master_socket.h"
#include "launch/workers/console.h"
#include "launch/workers/group_worker.h"
#include "launch/workers/worker_group.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kRetryTime{1000};  // at least, after a start that failed

}  // namespace

// Whether the worker, which has ended, was killed, so that the others continue; if they cannot, the
// coordinator stops them.
bool WorkerGroup::continues_without(Worker& worker) {
  if (!links_) return false;
  const WorkerEnd end{.exit = *worker.exit};
  const bool is_loss = end.exit.signal || (end.failed() && is_late(worker));
  if (!is_loss || is_before_training(worker) || (is_stopping() && !is_leaving_)) {
    links_->leave(worker.local_rank);
    return false;
  }
  const bool was_done = has_finished(worker);
  links_->lose(worker.local_rank, end.what());
  worker.is_lost = true;
  worker.is_harmless = was_done || (worker.was_started_again() && is_late(worker));
  worker.is_wanted = !was_done && is_startable(worker);
  return true;
}

// Whether the ranks had not begun to train, so that the others cannot continue: they connect, or read the checkpoint.
bool WorkerGroup::is_before_training(const Worker& worker) const {
  const bool starts_with_others =
      !place_.joins && !worker.was_started_again() && worker.local_rank < options_.num_workers;
  return starts_with_others && worker.progress_memory.is_open() && !worker.has_taken_part() &&
         worker.progress->snapshot().total_steps == 0;
}

// Whether it was killed when the ranks had trained to the end, and it had nothing left to do: rank 0 completes the
// record. A crash is a failure all the same.
bool WorkerGroup::has_finished(const Worker& worker) const {
  const auto rank = links_->rank_of(worker.local_rank);
  return worker.exit->signal == SIGKILL && rank && *rank != 0 &&
         worker.progress->snapshot().phase == Phase::Finishing;
}

// Whether it was started while the others trained, and has not taken part: its failure is not that of the job.
bool WorkerGroup::is_late(const Worker& worker) const {
  if (worker.has_taken_part()) return false;
  return worker.was_started_again() || (place_.joins && !is_joining());
}

// Whether the node joins a running job, and none of its workers has been a rank yet.
bool WorkerGroup::is_joining() const {
  return place_.joins && std::ranges::none_of(workers_, [](const auto& worker) {
           return worker->was_started_again() || worker->has_taken_part();
         });
}

// Whether the worker, which was lost, is started again when the others have continued; says so if not. One
// that left is not, nor one that would fail again before it is of use.
bool WorkerGroup::is_startable(Worker& worker) const {
  const bool has_left = worker.exit->signal == SIGTERM || is_stopping() ||
                        links_->is_dismissed(worker.local_rank) ||
                        links_->asks_to_leave(worker.local_rank);
  if (options_.rank_restarts == 0 || has_left) return false;
  std::string reason;
  if (!worker.progress_memory.is_open())
    reason = "without shared memory, it is not known whether it had taken part in a step";
  else if (!worker.has_taken_part())
    reason = "it had not taken part in a step";
  else if (plan_start(worker))
    return true;
  else
    reason = fmt::format("--rank-restarts {}", options_.rank_restarts);
  consoles_.err.write_note(
      fmt::format("the process [rank {}] is not started again: {}", worker.rank, reason));
  return false;
}

// The first time at once, then after a pause, as the host may have no memory for it. False: no restart is left.
bool WorkerGroup::plan_start(Worker& worker) {
  const auto now = Clock::now();
  const auto pause = worker.restarts.restart(now, /*step=*/0);
  worker.start_at = now + pause.value_or(std::chrono::milliseconds(0));
  return pause.has_value();
}

bool WorkerGroup::is_replaced(const Worker& worker) const {
  return worker.is_lost && links_->is_replaced(worker.local_rank);
}

// Whether it is started again as soon as the others have continued without it.
bool WorkerGroup::is_awaited(const Worker& worker) const {
  return worker.is_wanted && !is_stopping() && !links_->is_dismissed(worker.local_rank);
}

void WorkerGroup::start_lost_workers() {
  const auto now = Clock::now();
  for (auto& worker : workers_)
    if (is_awaited(*worker) && is_replaced(*worker) && now >= worker->start_at) start_again(worker);
}

void WorkerGroup::drop_former() {
  std::erase_if(former_, [this](auto& worker) {
    const bool is_open = worker->out.is_open() || worker->err.is_open();
    if (is_open && Clock::now() < worker->drain_until) return false;
    end_output(*worker);
    return true;
  });
}

// As a spare of the same attempt, with its own logs.
void WorkerGroup::start_again(std::unique_ptr<Worker>& lost) {
  lost->is_wanted = false;
  const int local_rank = lost->local_rank;
  bool is_announced = false;
  try {
    auto worker = make_worker(local_rank, lost->restarts);
    links_->start_again(local_rank);
    is_announced = true;
    start(*worker, {});
    lost->process->reap();
    lost->drain_until = Clock::now() + kDrainTime;
    former_.push_back(std::exchange(lost, std::move(worker)));
    drain_deadline_.reset();
    changed_ = true;
  } catch (const Error& error) {
    if (is_announced) links_->lose(local_rank, "could not be started");
    // E.g. no more processes: that may pass.
    lost->restarts.begin_attempt(Clock::now());
    lost->is_wanted = plan_start(*lost);
    lost->start_at = std::max(lost->start_at, Clock::now() + kRetryTime);
    consoles_.err.write_note(
        fmt::format("the process [rank {}] could not be started again{}: {}", lost->rank,
                    lost->is_wanted ? ", which is tried again" : "", error.what()));
  }
}

}  // namespace lockstep::launch
