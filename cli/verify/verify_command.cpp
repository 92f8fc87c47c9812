// `lockstep verify`: recomputes a stretch of a run from a checkpoint and compares the results.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "catalog/run_list.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/verify/trial_run.h"
#include "core/config/launch_sections.h"
#include "core/printable.h"
#include "lockstep/error.h"
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

struct Stretch {
  int64_t begin = 0;
  std::vector<int64_t> compared;  // steps, ascending; the last one is the end
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

int64_t common_divisor(const std::vector<int64_t>& steps) {
  int64_t divisor = 0;
  for (const auto step : steps) divisor = std::gcd(divisor, step);
  return divisor;
}

// A trial saves checkpoints at regular steps. If those of the run are at others, because it was stopped
// or saves by time, there is one trial for each instead of one that saves many more.
std::vector<Stretch> trials_of(const Stretch& stretch) {
  const auto every = common_divisor(stretch.compared);
  const auto num_saved = stretch.compared.back() / every - stretch.begin / every;
  if (num_saved == static_cast<int64_t>(stretch.compared.size())) return {stretch};
  std::vector<Stretch> trials;
  auto begin = stretch.begin;
  for (const auto step : stretch.compared) trials.push_back({std::exchange(begin, step), {step}});
  return trials;
}

// Returns the first step at which the bits of the run and of `trial` differ; nullopt: none.
std::optional<int64_t> find_difference(const fs::path& run, const Stretch& stretch,
                                       TrialOptions trial) {
  const TemporaryDirectory runs(run.parent_path());
  trial.begin = stretch.begin;
  trial.end = stretch.compared.back();
  trial.every = common_divisor(stretch.compared);
  const auto again = train_trial(runs.path(), trial);
  for (const auto step : stretch.compared) {
    fmt::print("step {}:\n", step);
    std::fflush(stdout);
    if (!compare_checkpoints(run, again, step)) return step;
  }
  return std::nullopt;
}

}  // namespace

int verify_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (wants_help({argv + 1, argv + argc})) {
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
  if (parsed.count("run") == 0)
    throw config_error("lockstep verify: a run is missing; see lockstep verify --help");
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
  const TrialOptions trial{.run_file = run / "config.yaml",
                           .ranks = ranks,
                           .resumed = run,
                           .overrides = all_values(parsed, "overrides")};
  for (const auto& part : trials_of(stretch)) {
    const auto step = find_difference(run, part, trial);
    if (!step) continue;
    fmt::print("verify: different at step {}; the checkpoints before it are bit-identical\n",
               *step);
    return 1;
  }
  fmt::print("verify: bit-identical\n");
  return 0;
}

}  // namespace lockstep::cli
