#include "cli/sweep/trial_runs.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>

#include "catalog/run_list.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/printable.h"
#include "core/system/file_descriptor.h"
#include "lockstep/rank_env.h"

namespace lockstep::cli {
namespace {

// run.seed of the run file.
int64_t seed_of(const std::filesystem::path& run_file) {
  RunSection run;
  const auto root = read_config_file(run_file);
  if (const auto* node = root.find("run")) read_known_fields(*node, "run", run);
  return run.seed;
}

double taken(const sweep::Objective& objective, const std::vector<double>& values) {
  auto value = values.back();
  if (objective.value == sweep::Taken::Best)
    for (const auto other : values)
      if (objective.loss(other) < objective.loss(value)) value = other;
  return value;
}

}  // namespace

LoggedObjectives read_objectives(const catalog::RunLogs& logs, const catalog::NameTable& names,
                                 const std::vector<sweep::Objective>& objectives) {
  LoggedObjectives logged;
  logged.values.resize(objectives.size());
  logs.look([&](const auto& all) {
    for (const auto& log : all)
      for (const auto& totals : log->summary().metrics) {
        const auto& name = names.text(totals.name);
        if (totals.count == 0 || log->summary().is_node) continue;
        if (std::ranges::count(logged.metrics, name) > 0) continue;  // of a lower rank
        logged.metrics.push_back(name);
        const auto objective = std::ranges::find(objectives, name, &sweep::Objective::metric);
        if (objective == objectives.end()) continue;
        const auto curve = log->read(totals.name, {.step = true});
        if (curve.value.empty()) continue;
        logged.values[objective - objectives.begin()] = taken(*objective, curve.value);
        if (objective != objectives.begin()) continue;
        for (size_t i = 0; i < curve.value.size(); ++i)
          logged.evaluations.push_back({static_cast<int64_t>(curve.step[i]), curve.value[i]});
      }
  });
  return logged;
}

TrialRuns::TrialRuns(const sweep::SweepDirectory& sweep, sweep::Trial trial, FileDescriptor lock,
                     catalog::NameTable& names, const std::vector<std::string>& launch)
    : sweep_(sweep),
      trial_(std::move(trial)),
      lock_(std::move(lock)),
      names_(names),
      launch_(launch) {
  trial_.runs = {run_id()};
}

std::string TrialRuns::run_id() const {
  return fmt::format("{}-t{:05}{}", sweep_.info().id, trial_.number,
                     place_ > 0 ? fmt::format("-s{}", place_) : "");
}

void TrialRuns::start(launch::WarmTemplate* warm, int slot, const std::string& gpus) {
  slot_ = slot;
  const auto& file = sweep_.file();
  std::vector<std::string> arguments = {"launch"};
  arguments.insert(arguments.end(), launch_.begin(), launch_.end());
  arguments.insert(arguments.end(), {"--run-id", run_id(), sweep_.run_file().string()});
  for (auto& override : sweep::overrides_of(trial_.parameters))
    arguments.push_back(std::move(override));
  arguments.push_back(fmt::format("run.name={}-{}", file.name, trial_.number));
  arguments.push_back(fmt::format("tracking.group=\"{}\"", file.name));
  if (file.seeds > 1)
    arguments.push_back(fmt::format("run.seed={}", seed_of(sweep_.run_file()) + place_));
  const auto log = sweep_.log_of(trial_);
  const FileDescriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!output.is_open()) throw errno_error(fmt::format("cannot write {}", log.string()));
  std::map<std::string, std::string> changes;
  if (!gpus.empty()) changes["CUDA_VISIBLE_DEVICES"] = gpus;
  const ChildCommand command{.program = own_program(),
                             .arguments = std::move(arguments),
                             .environment = environment_with(changes),
                             .stdout_fd = output.get(),
                             .stderr_fd = output.get()};
  earlier_end_ = recorded_end();
  auto started = warm ? warm->start_launcher(command) : std::nullopt;
  child_.emplace(started ? std::move(*started) : ChildProcess(command));
}

bool TrialRuns::advance() {
  if (place_ + 1 >= sweep_.file().seeds) return false;
  ++place_;
  trial_.runs.push_back(run_id());
  child_.reset();
  logs_.reset();
  return true;
}

LoggedObjectives TrialRuns::observe() {
  std::error_code error;
  LoggedObjectives none;
  none.values.resize(sweep_.file().objective.all.size());
  if (!std::filesystem::exists(run_dir() / "run.json", error)) return none;
  if (!logs_) {
    spool_ = std::make_unique<catalog::ColumnSpool>(
        std::vector<std::filesystem::path>{sweep_.path(), "/var/tmp", "/tmp"});
    logs_ = std::make_unique<catalog::RunLogs>(run_dir(), names_, spool_.get());
  }
  logs_->catch_up();
  return read_objectives(*logs_, names_, sweep_.file().objective.all);
}

std::optional<ProcessExit> TrialRuns::poll_exit() const { return child_->poll_exit(); }

void TrialRuns::terminate() const { child_->signal_group(SIGTERM); }

std::string TrialRuns::last_line() const {
  std::ifstream log(sweep_.log_of(trial_));
  std::string last, error;
  for (std::string line; std::getline(log, line);) {
    if (line.find("error: ") != std::string::npos) error = line;
    if (!line.empty()) last = line;
  }
  return error.empty() ? last : error;
}

std::optional<RunEnd> TrialRuns::recorded_end() const {
  std::error_code error;
  if (!std::filesystem::exists(run_dir() / "run.json", error)) return std::nullopt;
  return catalog::read_run(run_dir(), names_)->end;
}

std::string TrialRuns::failure(const ProcessExit& exit) {
  std::string reason;
  // A continued run that its ranks did not reopen still has the end of its last part.
  if (const auto end = recorded_end(); end && end != earlier_end_) reason = end->reason;
  if (reason.empty()) reason = last_line();
  if (reason.empty())
    reason = exit.signal ? fmt::format("the launcher was killed by signal {}", *exit.signal)
                         : fmt::format("exit code {}", exit.code);
  return printable(reason, 400);
}

}  // namespace lockstep::cli
