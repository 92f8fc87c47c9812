// `lockstep verify`: recomputes a stretch of a run from a checkpoint and compares the results.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "catalog/run_list.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/printable.h"
#include "core/system/child_process.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVerifyHelp =
    R"(lockstep verify: recompute a stretch of a run and compare bits

  lockstep verify RUN [--steps A:B] [--dir RUNS] [key.subkey=value ...]

Trains again from the checkpoint of step A to step B, in a temporary directory next to the run, and
compares weights and optimizer state with each of the run's checkpoints on the way. Run it in the
directory in which the run was started, if its run file has relative paths.

  --steps A:B   steps with checkpoints, or 0 for A (default: the last stretch between two
                checkpoints)
  --dir RUNS    directory of the runs (default: runs)
  -n, --nproc-per-node RANKS
                number of ranks (default: as in the run). Other numbers have other bits, except with
                distributed.virtual_shards

Exit code 0: bit-identical; 1: they differ. Bits also depend on the processor, on the number of
threads per rank and on the version of LibTorch.
)";

constexpr int kPollMs = 100;

struct Stretch {
  int64_t begin = 0;
  std::vector<int64_t> compared;  // steps, ascending; the last one is the end
};

// A directory that is removed with its content.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const fs::path& parent) : path_(parent / ".verify-XXXXXX") {
    auto name = path_.string();
    if (!::mkdtemp(name.data()))
      throw errno_error(fmt::format("cannot create a directory in '{}'", parent.string()));
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<int64_t> steps_of(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const auto& [step, path] :
       tracking::numbered_directories(tracking::checkpoints_path(run), ""))
    steps.push_back(step);
  return steps;
}

int64_t parse_step(const std::string& text, const std::string& option) {
  int64_t step = -1;
  const auto* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, step).ptr != end || step < 0)
    throw config_error(
        fmt::format("lockstep verify: --steps {}: expected A:B, e.g. 100:200", printable(option)));
  return step;
}

Stretch choose_stretch(const std::vector<int64_t>& steps, const std::string& option) {
  Stretch stretch;
  auto end = steps.back();
  if (option.empty()) {
    if (steps.size() > 1) stretch.begin = steps[steps.size() - 2];
  } else {
    const auto colon = std::min(option.find(':'), option.size());
    stretch.begin = parse_step(option.substr(0, colon), option);
    end = parse_step(option.substr(std::min(colon + 1, option.size())), option);
  }
  const auto has = [&](int64_t step) { return std::ranges::find(steps, step) != steps.end(); };
  for (const auto step : {stretch.begin, end})
    if (!has(step) && (step != 0 || step == end))
      throw config_error(
          fmt::format("lockstep verify: the run has no checkpoint of step {}; there are {} to {}",
                      step, steps.front(), steps.back()));
  if (end <= stretch.begin)
    throw config_error(fmt::format("lockstep verify: --steps {}: the end must be after the begin",
                                   printable(option)));
  for (const auto step : steps)
    if (step > stretch.begin && step <= end) stretch.compared.push_back(step);
  return stretch;
}

// The run as it was at a checkpoint, without copies of large files.
void link_checkpoint(const fs::path& run, int64_t step, const fs::path& to) {
  const auto name = std::to_string(step);
  const auto checkpoint = tracking::checkpoints_path(to) / name;
  fs::create_directories(checkpoint);
  for (const auto* file : {"run.json", "config.yaml"}) fs::copy_file(run / file, to / file);
  for (const auto& entry : fs::directory_iterator(tracking::checkpoints_path(run) / name))
    fs::create_hard_link(entry.path(), checkpoint / entry.path().filename());
}

// Runs a program until it ends, or until `is_done`: it is stopped then. Returns its exit code, 0 if
// it was stopped. Throws Environment if this process is asked to stop.
int run_until(const std::string& program, std::vector<std::string> arguments,
              const std::function<bool()>& is_done) {
  launch::SignalWatch signals;
  ChildProcess child({.program = program,
                      .arguments = std::move(arguments),
                      .environment = environment_with({}),
                      .stdout_fd = STDOUT_FILENO,
                      .stderr_fd = STDERR_FILENO});
  bool is_stopping = false;
  std::optional<int> signal;
  for (;;) {
    if (const auto end = child.poll_exit()) {
      if (signal) throw environment_error("lockstep verify: interrupted");
      return is_stopping ? 0 : end->code;
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

void recompute(const fs::path& run, const Stretch& stretch, int ranks, const fs::path& runs,
               const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments = {"launch", "-n", std::to_string(ranks)};
  if (stretch.begin > 0) {
    link_checkpoint(run, stretch.begin, runs / run.filename());
    arguments.insert(arguments.end(), {"--resume", run.filename().string()});
  }
  arguments.push_back((run / "config.yaml").string());
  arguments.insert(arguments.end(), {"run.dir=" + runs.string(), "checkpoint.keep_last=1000000",
                                     "tracking.sinks=[console]", "tracking.checkpoints=none"});
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  const auto is_done = [&] {
    const auto again = find_run(runs);
    return !again.empty() &&
           fs::exists(tracking::checkpoints_path(again) / std::to_string(stretch.compared.back()));
  };
  const int code = run_until(own_program(), std::move(arguments), is_done);
  if (code != 0)
    throw Error(
        code == static_cast<int>(ErrorKind::Config) ? ErrorKind::Config : ErrorKind::Environment,
        "lockstep verify: the run could not be recomputed, see above");
}

// Returns the exit code.
int compare(const fs::path& run, const fs::path& again, const std::vector<int64_t>& steps) {
  for (const auto step : steps) {
    if (!fs::exists(tracking::checkpoints_path(again) / std::to_string(step)))
      throw environment_error(
          fmt::format("lockstep verify: the recomputed run has no checkpoint of step {}; was it "
                      "saved by a signal or a time interval?",
                      step));
    fmt::print("step {}:\n", step);
    std::fflush(stdout);
    const int code = run_until(trainer_program(),
                               {"--checkpoints", "diff", fmt::format("{}:{}", run.string(), step),
                                fmt::format("{}:{}", again.string(), step)},
                               [] { return false; });
    if (code == 0) continue;
    if (code == 1)
      fmt::print("verify: different at step {}; the checkpoints before it are bit-identical\n",
                 step);
    return code;
  }
  fmt::print("verify: bit-identical\n");
  return 0;
}

}  // namespace

int verify_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() == 1 || wants_help(words)) {
    fmt::print("{}", kVerifyHelp);
    return 0;
  }
  cxxopts::Options options("lockstep verify");
  auto add = options.add_options();
  add("steps", "", cxxopts::value<std::string>()->default_value(""));
  add("dir", "", cxxopts::value<std::string>()->default_value(kRunsDir));
  add("n,nproc-per-node", "", cxxopts::value<int>());
  auto add_positional = options.add_options(kPositional);
  add_positional("run", "", cxxopts::value<std::string>());
  add_positional("overrides", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"run", "overrides"});
  const auto parsed = parse_words(options, words);
  if (parsed.count("run") == 0) throw config_error("lockstep verify: a run is missing");
  const auto run = fs::absolute(catalog::find_run_directory(parsed["dir"].as<std::string>(),
                                                            parsed["run"].as<std::string>()));
  const auto steps = steps_of(run);
  if (steps.empty())
    throw config_error(fmt::format("lockstep verify: '{}' has no checkpoint", run.string()));
  const auto job = tracking::read_job(run);
  if (!job)
    throw environment_error(fmt::format("'{}' cannot be read", (run / "run.json").string()));
  const auto stretch = choose_stretch(steps, parsed["steps"].as<std::string>());
  const int ranks =
      parsed.count("nproc-per-node") > 0 ? parsed["nproc-per-node"].as<int>() : job->world_size;
  fmt::print("verify: {}, steps {} to {} on {} rank{}\n", run.filename().string(), stretch.begin,
             stretch.compared.back(), ranks, ranks == 1 ? "" : "s");
  std::fflush(stdout);
  const TemporaryDirectory runs(run.parent_path());
  recompute(run, stretch, ranks, runs.path(), all_values(parsed, "overrides"));
  return compare(run, find_run(runs.path()), stretch.compared);
}

}  // namespace lockstep::cli
