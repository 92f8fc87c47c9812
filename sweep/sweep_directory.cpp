#include "sweep/sweep_directory.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "core/config/config_text.h"
#include "core/config/run_file.h"
#include "core/system/durable_file.h"
#include "sweep/ranking.h"
#include "sweep/search.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

constexpr auto kChangesLockTimeout = std::chrono::minutes(2);
constexpr int kLockPollMs = 5, kControllerTries = 40;

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool try_lock(const FileDescriptor& file, int kind = LOCK_EX) {
  return ::flock(file.get(), kind | LOCK_NB) == 0;
}

FileLock lock_changes_of(const fs::path& sweep) {
  return {sweep / "changes.lock", FileLock::Kind::Exclusive, kChangesLockTimeout};
}

Json parse_json(const fs::path& path) {
  try {
    return Json::parse(read_file(path));
  } catch (const Json::exception& error) {
    throw config_error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

SweepInfo info_from_json(const Json& json, const std::string& name) {
  try {
    return {.id = json.at("id"),
            .created = json.at("created"),
            .ranks = json.at("ranks"),
            .file = sweep_file_from_json(json.at("sweep"), name)};
  } catch (const Json::exception& error) {
    throw config_error(fmt::format("{}: {}", name, error.what()));
  }
}

Json info_json(const SweepInfo& info) {
  return {{"id", info.id},
          {"created", info.created},
          {"ranks", info.ranks},
          {"sweep", ConfigDumper::dump(info.file)}};
}

int64_t number_after(const std::vector<Trial>& trials) {
  return trials.empty() ? 0 : trials.back().number + 1;
}

// The setting in which two sweeps differ so that they cannot continue each other; else empty.
std::string difference(const SweepInfo& a, const SweepInfo& b) {
  if (a.ranks != b.ranks) return "number of ranks";
  const auto left = ConfigDumper::dump(a.file), right = ConfigDumper::dump(b.file);
  for (const auto* key : {"space", "search", "objective", "pruning", "seeds"})
    if (left[key] != right[key]) return key;
  return {};
}

}  // namespace

fs::path sweeps_path(const fs::path& runs) { return runs / ".sweeps"; }

std::vector<std::string> sweep_names(const fs::path& runs) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sweeps_path(runs), error))
    if (fs::exists(entry.path() / "sweep.json", error)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

SweepDirectory::SweepDirectory(fs::path path) : path_(std::move(path)) {
  const auto file = path_ / "sweep.json";
  std::error_code error;
  if (!fs::exists(file, error))
    throw config_error(fmt::format("'{}' is not the directory of a sweep", path_.string()));
  info_ = info_from_json(parse_json(file), file.string());
}

SweepDirectory SweepDirectory::open_or_create(const fs::path& path, const SweepInfo& info,
                                              const Json& run) {
  const auto text = to_yaml(with_escaped_variables(run));
  auto wanted = info;
  for (const auto* folder : {"trials", "logs", "running"}) make_directories(path / folder);
  const auto lock = lock_changes_of(path);
  std::error_code error;
  if (fs::exists(path / "sweep.json", error)) {
    const SweepDirectory existing(path);
    auto changed = difference(existing.info(), info);
    if (changed.empty() && read_file(existing.run_file()) != text) changed = "run file";
    if (!changed.empty() && !existing.trials().empty())
      throw config_error(fmt::format(
          "the sweep '{}' exists with another {}; to start a new sweep, choose another name",
          info.file.name, changed));
    if (changed.empty()) {  // its trials have the id in the ids of their runs
      wanted.id = existing.info().id;
      wanted.created = existing.info().created;
    }
  }
  write_file_durably(path / "run.yaml", text);
  write_file_durably(path / "sweep.json", info_json(wanted).dump(2) + "\n");
  return SweepDirectory(path);
}

fs::path SweepDirectory::trial_path(int64_t number) const {
  return path_ / "trials" / fmt::format("{:05}.json", number);
}

fs::path SweepDirectory::log_of(const Trial& trial) const {
  return path_ / "logs" / fmt::format("{:05}.log", trial.number);
}

std::vector<Trial> SweepDirectory::trials() const {
  std::vector<Trial> trials;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_ / "trials", error)) {
    if (entry.path().extension() != ".json") continue;
    trials.push_back(trial_from_json(parse_json(entry.path()), entry.path().string()));
    if (trial_path(trials.back().number).filename() != entry.path().filename())
      throw config_error(
          fmt::format("{}: has the number {}", entry.path().string(), trials.back().number));
  }
  std::ranges::sort(trials, {}, &Trial::number);
  return trials;
}

std::optional<Trial> SweepDirectory::find(int64_t number) const {
  const auto path = trial_path(number);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  return trial_from_json(parse_json(path), path.string());
}

std::optional<Trial> SweepDirectory::add(TrialSource by, const std::optional<Point>& point) const {
  const auto lock = lock_changes();
  const auto before = trials();
  Trial trial{.number = number_after(before),
              .by = by,
              .created = unix_seconds(),
              .is_handed_out = by == TrialSource::Ask};
  if (point) {
    file().space.verify(*point);
    trial.parameters = *point;
  } else {
    if (is_complete(before)) return std::nullopt;
    auto next = next_point(file(), before, trial.number);
    if (!next) return std::nullopt;
    trial.parameters = std::move(*next);
    if (file().search.name == Method::Tpe || file().search.name == Method::Gp)
      for (const auto& other : before)
        if (other.counts()) trial.saw.push_back(other.number);
  }
  write(trial);
  return trial;
}

std::optional<Trial> SweepDirectory::hand_out() const {
  {
    const auto lock = lock_changes();
    auto all = trials();
    if (has_reached_target(all)) return std::nullopt;
    for (auto& trial : all) {
      // Trials of the search that are open are continued by the process that runs the sweep.
      if (!trial.is_open() || trial.is_handed_out || trial.by == TrialSource::Search) continue;
      const auto running = lock_trial(trial.number);
      if (!running.is_open()) continue;
      file().space.verify(trial.parameters);  // it may have been added by hand
      trial.is_handed_out = true;
      write(trial);
      return trial;
    }
  }
  return add(TrialSource::Ask);
}

Trial SweepDirectory::add_finished(Trial trial) const {
  const auto lock = lock_changes();
  file().space.verify(trial.parameters);
  trial.number = number_after(trials());
  trial.created = trial.ended = unix_seconds();
  write(trial);
  return trial;
}

void SweepDirectory::write(const Trial& trial) const {
  write_file_durably(trial_path(trial.number), to_json(trial).dump(2) + "\n");
}

void SweepDirectory::remove(const Trial& trial) const {
  std::error_code ignored;
  fs::remove(trial_path(trial.number), ignored);
}

bool SweepDirectory::has_reached_target(const std::vector<Trial>& trials) const {
  const auto& target = file().budget.target;
  if (!target) return false;
  const auto& objective = file().first();
  return std::ranges::any_of(best_of({objective}, trials), [&](const Trial& best) {
    return objective.loss(best.values.front()) <= objective.loss(*target);
  });
}

bool SweepDirectory::is_complete(const std::vector<Trial>& trials) const {
  if (has_reached_target(trials)) return true;
  const auto count = std::ranges::count_if(
      trials, [](const Trial& trial) { return trial.by != TrialSource::Import; });
  if (file().budget.trials && count >= *file().budget.trials) return true;
  return file().search.name == Method::Grid && !next_point(file(), trials, 0);
}

FileDescriptor SweepDirectory::lock_controller(bool is_shared) const {
  auto file = open_lock_file(path_ / "controller.lock");
  // is_controlled() of another process, or a first one that begins to share it, holds it for a moment.
  for (int i = 0; i < kControllerTries; ++i) {
    if (try_lock(file)) {
      std::error_code ignored;
      fs::remove(path_ / "stop_request", ignored);
      if (!is_shared) return file;
    }
    if (is_shared && try_lock(file, LOCK_SH)) return file;
    ::poll(nullptr, 0, kLockPollMs);
  }
  throw config_error(fmt::format("the sweep '{}' is already run by another process ({}){}",
                                 info_.file.name, path_.string(),
                                 is_shared ? ", which was started without --join" : ""));
}

FileDescriptor SweepDirectory::lock_trial(int64_t number) const {
  auto file = open_lock_file(path_ / "running" / fmt::format("{:05}", number));
  return try_lock(file) ? std::move(file) : FileDescriptor();
}

bool SweepDirectory::is_controlled() const {
  const auto path = path_ / "controller.lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.is_open() && !try_lock(file) && errno == EWOULDBLOCK;
}

FileLock SweepDirectory::lock_changes() const { return lock_changes_of(path_); }

void SweepDirectory::request_stop() const { write_file_durably(path_ / "stop_request", "\n"); }

std::optional<fs::file_time_type> SweepDirectory::stop_requested() const {
  std::error_code error;
  const auto time = fs::last_write_time(path_ / "stop_request", error);
  return error ? std::nullopt : std::optional(time);
}

}  // namespace lockstep::sweep
