#include "cli/verify/trial_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>

#include "cli/trainer_program.h"
#include "core/system/child_process.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 100;

fs::path checkpoint_of(const fs::path& run, int64_t step) {
  return tracking::checkpoints_path(run) / std::to_string(step);
}

// The run as it was at a checkpoint, without copies of large files.
void link_checkpoint(const fs::path& run, int64_t step, const fs::path& to) try {
  const auto checkpoint = checkpoint_of(to, step);
  fs::create_directories(checkpoint);
  for (const auto* file : {"run.json", "config.yaml"}) fs::copy_file(run / file, to / file);
  constexpr const char* kReference = "reference.safetensors";  // of a run with model.dpo
  if (fs::exists(run / kReference)) fs::copy_file(run / kReference, to / kReference);
  for (const auto& entry : fs::directory_iterator(checkpoint_of(run, step)))
    fs::create_hard_link(entry.path(), checkpoint / entry.path().filename());
} catch (const fs::filesystem_error& error) {
  throw environment_error(error.what());
}

// Runs a program until it ends, or until `is_done`: it is stopped then. Returns its exit code, as a
// shell would, 0 if it was stopped. Throws Environment if this process is asked to stop.
int run_until(const std::string& program, std::vector<std::string> arguments,
              const std::function<bool()>& is_done) {
  launch::SignalWatch signals;
  ChildProcess child({.program = program,
                      .arguments = std::move(arguments),
                      .environment = environment_with({{"LOCKSTEP_TEMPORARY_RUN", "1"}}),
                      .stdout_fd = STDOUT_FILENO,
                      .stderr_fd = STDERR_FILENO});
  bool is_stopping = false;
  std::optional<int> signal;
  for (;;) {
    if (const auto end = child.poll_exit()) {
      if (signal) throw environment_error("interrupted");
      if (is_stopping) return 0;
      return end->signal ? 128 + *end->signal : end->code;
    }
    auto request = signals.poll_request();
    ::poll(&request, 1, kPollMs);
    while (const auto next = signals.next()) signal = next;
    if (is_stopping || (!signal && !is_done())) continue;
    is_stopping = true;
    child.signal_group(SIGTERM);
  }
}

// The only run in a directory.
fs::path find_run(const fs::path& runs) {
  for (const auto& entry : fs::directory_iterator(runs))
    if (fs::exists(entry.path() / "run.json")) return entry.path();
  return {};
}

}  // namespace

TemporaryDirectory::TemporaryDirectory(const fs::path& parent) {
  std::error_code ignored;
  fs::create_directories(parent, ignored);
  auto name = (fs::absolute(parent) / ".verify-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw errno_error(fmt::format("cannot create a directory in '{}'", parent.string()));
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path train_trial(const fs::path& runs, const TrialOptions& options) {
  fs::create_directories(runs);
  std::vector<std::string> arguments = {"launch", "-n", std::to_string(options.ranks)};
  if (options.begin > 0) {
    const auto name = options.resumed.filename();
    link_checkpoint(options.resumed, options.begin, runs / name);
    arguments.insert(arguments.end(), {"--resume", name.string()});
  }
  arguments.push_back(options.run_file.string());
  arguments.insert(arguments.end(), options.overrides.begin(), options.overrides.end());
  // Last, as these replace those of the user.
  arguments.insert(arguments.end(), {"run.dir=" + runs.string(),
                                     fmt::format("checkpoint.every={} steps", options.every),
                                     "checkpoint.keep_last=1000000", "checkpoint.mirror=null",
                                     "tracking.sinks=[console]", "tracking.checkpoints=none"});
  const auto is_saved = [&] {
    const auto run = find_run(runs);
    if (run.empty() || !fs::exists(checkpoint_of(run, options.end))) return false;
    fmt::print(
        "step {} is saved, the last one that is compared: stopping this training with SIGTERM\n",
        options.end);
    std::fflush(stdout);
    return true;
  };
  const int code = run_until(own_program(), std::move(arguments), is_saved);
  if (code != 0)
    throw Error(
        code == static_cast<int>(ErrorKind::Config) ? ErrorKind::Config : ErrorKind::Environment,
        "the training failed, see above");
  const auto run = find_run(runs);
  if (!fs::exists(checkpoint_of(run, options.end)))
    throw config_error(fmt::format("the training ended before step {}", options.end));
  return run;
}

bool compare_checkpoints(const fs::path& run, const fs::path& other, int64_t step) {
  for (const auto& each : {run, other})
    if (!fs::exists(checkpoint_of(each, step)))
      throw environment_error(
          fmt::format("'{}' has no checkpoint of step {}", each.string(), step));
  const auto word = [&](const fs::path& each) { return fmt::format("{}:{}", each.string(), step); };
  const int code = run_until(trainer_program(), {"--checkpoints", "diff", word(run), word(other)},
                             [] { return false; });
  if (code > 1) throw environment_error("the checkpoints cannot be compared, see above");
  return code == 0;
}

}  // namespace lockstep::cli
