#include "cli/sweep/sweep_controller.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <ostream>

#include "cli/sweep/sweep_view.h"
#include "cli/trainer_program.h"
#include "core/config/nearest_name.h"
#include "launch/environment/worker_env.h"
#include "launch/workers/orphans.h"
#include "sweep/pruning.h"
#include "sweep/search.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/run_tags.h"
#include "tracking/runs/stop_request.h"

namespace lockstep::cli {
namespace {

using sweep::Trial;
using sweep::TrialSource;
using sweep::TrialState;

// How often live runs and the request to stop are looked at; the end of a run is seen at once.
constexpr int kLookMs = 100;

std::string failure_text(const Trial& trial) {
  return fmt::format("the last, {}: {}", trial.number, trial.reason);
}

}  // namespace

SweepController::SweepController(const sweep::SweepDirectory& sweep, const SweepOptions& options,
                                 std::ostream& out)
    : sweep_(sweep),
      options_(options),
      out_(out),
      lock_(sweep.lock_controller(options.joins)),
      earlier_request_(sweep.stop_requested()) {
  for (const auto& trial : sweep_.trials())
    is_objective_known_ |= trial.state == TrialState::Finished;
}

int SweepController::run() {
  for (;;) {
    fill();
    if (running_.empty()) break;
    wait();
    std::erase_if(running_, [&](const Running& each) { return !update(*each); });
  }
  return finish();
}

void SweepController::fill() {
  while (!is_stopping_ && static_cast<int>(running_.size()) < options_.parallel) {
    auto running = next_trial();
    if (!running) return;
    // A run that continues may have logged what it is stopped for.
    prune_if_due(*running, running->observe());
    if (running->trial().state == TrialState::Pruned) {
      end_trial(*running, TrialState::Pruned);
      continue;
    }
    start(*running, free_slot());
    running_.push_back(std::move(running));
  }
}

int SweepController::free_slot() const {
  int slot = 0;
  while (std::ranges::count(running_, slot, [](const Running& each) { return each->slot(); }) > 0)
    ++slot;
  return slot;
}

void SweepController::start(TrialRuns& trial, int slot) {
  if (options_.is_warm && !warm_)
    warm_.emplace(trainer_program(), sweep_.info().ranks, sweep_.path().string());
  trial.start(warm_ ? &*warm_ : nullptr, slot,
              launch::gpus_of_job(options_.gpus, slot, sweep_.info().ranks));
}

bool SweepController::is_used_up(const std::vector<Trial>& trials) const {
  const auto& budget = sweep_.file().budget;
  if (budget.time && std::chrono::steady_clock::now() - begin_ >= budget.time->value) return true;
  return sweep_.has_reached_target(trials);
}

SweepController::Running SweepController::next_trial() {
  const auto trials = sweep_.trials();
  if (is_used_up(trials)) return nullptr;
  for (const auto& trial : trials) {
    const bool is_running = std::ranges::any_of(
        running_, [&](const Running& each) { return each->trial().number == trial.number; });
    if (!trial.is_open() || trial.is_handed_out || is_running) continue;
    if (auto running = take(trial.number)) return running;
  }
  while (const auto added = sweep_.add(TrialSource::Search))
    if (auto running = take(added->number)) return running;  // else another process has taken it
  return nullptr;
}

// The trial, if it is still open and no other process runs it.
SweepController::Running SweepController::take(int64_t number) {
  auto lock = sweep_.lock_trial(number);
  if (!lock.is_open()) return nullptr;
  auto trial = sweep_.find(number);
  if (!trial || !trial->is_open() || trial->is_handed_out) return nullptr;
  sweep_.file().space.verify(trial->parameters);  // it may have been added by hand
  return std::make_unique<TrialRuns>(sweep_, std::move(*trial), std::move(lock), names_,
                                     options_.launch);
}

void SweepController::wait() {
  auto request = signals_.poll_request();
  ::poll(&request, 1, kLookMs);
  launch::reap_orphans(processes());
  while (const auto signal = signals_.next()) {
    signal_ = signal;
    stop_all();
  }
  const auto requested = sweep_.stop_requested();
  if (!is_stopping_ && requested && requested != earlier_request_) stop_all();
}

std::vector<pid_t> SweepController::processes() const {
  std::vector<pid_t> all;
  for (const auto& each : running_) all.push_back(each->process());
  if (warm_) all.push_back(warm_->process());
  return all;
}

void SweepController::stop_all() {
  is_stopping_ = true;
  for (const auto& each : running_) each->terminate();
}

bool SweepController::update(TrialRuns& running) {
  const auto exit = running.poll_exit();
  const bool is_watched = !is_objective_known_ || sweep_.file().pruning.name != sweep::Pruner::None;
  if (!exit && !is_watched) return true;
  const auto logged = running.observe();
  if (is_objective_missing(logged, exit && exit->code == 0 && !exit->signal)) {
    if (!exit && !is_stopping_) stop_all();
    if (exit) sweep_.remove(running.trial());
    return !exit;
  }
  if (!is_stopping_) prune_if_due(running, logged);
  return !exit || end_run(running, logged, *exit);
}

bool SweepController::is_objective_missing(const LoggedObjectives& logged, bool has_ended) {
  if (is_objective_known_) return false;
  const bool is_evaluated = std::ranges::any_of(
      logged.metrics, [](const auto& name) { return name.starts_with("eval/"); });
  const auto& objectives = sweep_.file().objective.all;
  for (size_t i = 0; i < objectives.size(); ++i) {
    if (logged.values[i]) continue;
    const auto& metric = objectives[i].metric;
    if (!has_ended && !(is_evaluated && metric.starts_with("eval/"))) return false;
    if (is_stopping_ && !problem_) return false;  // it was not given the time
    auto results = logged.metrics;
    std::erase_if(results, [](const auto& name) {
      return !name.starts_with("train/") && !name.starts_with("eval/");
    });
    if (!problem_)
      problem_ = config_error(
          fmt::format("objective: no trial logs '{}'{}", metric, suggest(metric, results)));
    return true;
  }
  is_objective_known_ = true;
  return false;
}

void SweepController::prune_if_due(TrialRuns& running, const LoggedObjectives& logged) {
  auto& trial = running.trial();
  if (!running.is_first_run() || trial.state == TrialState::Pruned) return;
  const auto known = trial.evaluations.size();
  if (sweep_.file().pruning.name == sweep::Pruner::None || logged.evaluations.size() <= known) {
    trial.evaluations = logged.evaluations;
    return;
  }
  auto others = sweep_.trials();
  std::erase_if(others, [&](const Trial& other) { return other.number == trial.number; });
  for (auto& other : others)
    for (const auto& each : running_)
      if (each->trial().number == other.number) other.evaluations = each->trial().evaluations;
  // One after another, whenever they are read: the decision does not depend on the time.
  for (size_t i = known; i < logged.evaluations.size(); ++i) {
    trial.evaluations.push_back(logged.evaluations[i]);
    trial.reason =
        sweep::why_pruned(sweep_.file().pruning, sweep_.file().first(), trial.evaluations, others);
    if (trial.reason.empty()) continue;
    trial.state = TrialState::Pruned;
    tracking::request_stop(running.run_dir(), "pruned: " + trial.reason);
    return;
  }
  if (options_.joins) sweep_.write(trial);  // others compare their trials with it
}

bool SweepController::end_run(TrialRuns& running, const LoggedObjectives& logged,
                              const ProcessExit& exit) {
  auto& trial = running.trial();
  if (trial.state == TrialState::Pruned) {
    end_trial(running, TrialState::Pruned);
    return false;
  }
  const bool has_failed = exit.code != 0 || exit.signal;
  if (has_failed && is_stopping_) {  // open: it is continued, unless the sweep file has to change
    if (problem_ && !is_objective_known_) sweep_.remove(trial);
    return false;
  }
  if (has_failed) {
    trial.reason = running.failure(exit);
    is_input_wrong_ &= exit.code == static_cast<int>(ErrorKind::Config);
    end_trial(running, TrialState::Failed);
    return false;
  }
  const auto num_runs = static_cast<double>(trial.runs.size());
  trial.values.resize(logged.values.size(), 0);
  for (size_t i = 0; i < logged.values.size(); ++i) {
    if (!logged.values[i]) {
      trial.reason = fmt::format("it did not log {}", sweep_.file().objective.all[i].metric);
      end_trial(running, TrialState::Failed);
      return false;
    }
    trial.values[i] += (*logged.values[i] - trial.values[i]) / num_runs;  // the mean of the runs
  }
  if (is_stopping_ && static_cast<int64_t>(trial.runs.size()) < sweep_.file().seeds) return false;
  if (running.advance()) {
    start(running, running.slot());
    return true;
  }
  end_trial(running, TrialState::Finished);
  return false;
}

void SweepController::end_trial(TrialRuns& running, TrialState state) {
  auto& trial = running.trial();
  trial.state = state;
  trial.ended = tracking::unix_now();
  if (state == TrialState::Failed) trial.values.clear();
  if (state == TrialState::Pruned) trial.values = {trial.evaluations.back().value};
  failures_ = state == TrialState::Failed ? failures_ + 1 : 0;
  std::vector<std::string> tags = {fmt::format("+trial:{}", trial.number)};
  if (state == TrialState::Pruned) tags.push_back("+pruned");
  for (const auto& run : trial.runs)
    if (std::error_code error; std::filesystem::exists(sweep_.runs() / run / "run.json", error))
      tracking::change_run_tags(sweep_.runs() / run, tags, std::nullopt);
  {
    const auto lock = sweep_.lock_changes();
    sweep_.write(trial);
  }
  report(trial);
  if (state == TrialState::Failed) last_failure_ = failure_text(trial);
  if (failures_ < sweep_.file().budget.failures || problem_) return;
  problem_ = failure(fmt::format("{} trials in a row failed", failures_));
  stop_all();
}

Error SweepController::failure(const std::string& what) const {
  return {is_input_wrong_ ? ErrorKind::Config : ErrorKind::Environment,
          what + "; " + last_failure_};
}

bool SweepController::has_no_result() const {
  const auto trials = sweep_.trials();
  return !trials.empty() && std::ranges::all_of(trials, [](const Trial& trial) {
    return trial.state == TrialState::Failed;
  });
}

void SweepController::report(const Trial& trial) {
  if (options_.json)
    out_ << sweep::to_json(trial).dump() << std::endl;
  else
    out_ << trial_text(sweep_, trial) << std::endl;
}

int SweepController::finish() {
  if (problem_) throw Error(*problem_);
  if (!signal_ && has_no_result()) {
    // Trials of an earlier command: trying again changes nothing, so the input is to blame.
    if (last_failure_.empty()) last_failure_ = failure_text(sweep_.trials().back());
    throw failure("all trials failed");
  }
  if (!options_.json) print_outcome(sweep_, out_);
  return signal_ ? 128 + *signal_ : 0;
}

}  // namespace lockstep::cli
