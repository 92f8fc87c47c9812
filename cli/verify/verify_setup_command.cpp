// `lockstep verify-setup`: checks before a long run that its results are reproducible.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/verify/trial_run.h"
#include "core/config/launch_sections.h"
#include "lockstep/config_node.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetupHelp =
    R"(lockstep verify-setup: check that a run file trains reproducibly

  lockstep verify-setup [-n RANKS] [--steps K] CONFIG [key.subkey=value ...]

Trains 2 K steps, then trains the second K steps again from the checkpoint of step K, and compares
bits. With distributed.virtual_shards, trains once more on another number of ranks and compares, too.
The runs are in a temporary directory in runs/, and are removed.

  --steps K     steps until the run is resumed (default: 5)
  -n, --nproc-per-node RANKS
                number of ranks (default: 1)

Exit code 0: all are bit-identical; 1: there is a difference.
)";

constexpr int64_t kDefaultSteps = 5;

bool has_virtual_shards(const fs::path& run) {
  const auto config = read_config_file(run / "config.yaml");
  const auto* const distributed = config.find("distributed");
  const auto* const shards = distributed ? distributed->find("virtual_shards") : nullptr;
  return shards && shards->kind == ConfigNode::Kind::Scalar;
}

// Returns whether the run is bit-identical to the expected one.
bool report(const std::string& what, const fs::path& expected, const fs::path& run, int64_t step) {
  std::fflush(stdout);
  const bool same = compare_checkpoints(expected, run, step);
  fmt::print("verify-setup: {}: {}\n", what, same ? "bit-identical" : "DIFFERENT");
  std::fflush(stdout);
  return same;
}

}  // namespace

int verify_setup_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (wants_help({argv + 1, argv + argc})) {
    fmt::print("{}", kSetupHelp);
    return 0;
  }
  cxxopts::Options options("lockstep verify-setup");
  auto add = options.add_options();
  add("steps", "", cxxopts::value<int64_t>()->default_value(std::to_string(kDefaultSteps)));
  add("n,nproc-per-node", "", cxxopts::value<int>()->default_value("1"));
  auto add_positional = options.add_options(kPositional);
  add_positional("config", "", cxxopts::value<std::string>());
  add_positional("overrides", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"config", "overrides"});
  const auto parsed = parse_words(options, words);
  if (parsed.count("config") == 0)
    throw config_error(
        "lockstep verify-setup: a run file is missing; see lockstep verify-setup --help");
  const auto steps = parsed["steps"].as<int64_t>();
  const auto ranks = parsed["nproc-per-node"].as<int>();
  if (steps < 1 || ranks < 1)
    throw config_error("lockstep verify-setup: --steps and --nproc-per-node must be at least 1");

  const TemporaryDirectory runs(kRunsDir);
  TrialOptions trial{.run_file = parsed["config"].as<std::string>(),
                     .ranks = ranks,
                     .end = 2 * steps,
                     .every = steps,
                     .overrides = all_values(parsed, "overrides")};
  const auto whole = train_trial(runs.path() / "whole", trial);

  trial.resumed = whole;
  trial.begin = steps;
  const auto resumed = train_trial(runs.path() / "resumed", trial);
  bool same = report(fmt::format("resumed at step {}", steps), whole, resumed, trial.end);

  if (!has_virtual_shards(whole)) {
    fmt::print(
        "verify-setup: other numbers of ranks: not compared; they have the same bits with "
        "distributed.virtual_shards only\n");
    return same ? 0 : 1;
  }
  trial.begin = 0;
  trial.ranks = ranks == 1 ? 2 : 1;
  const auto other = train_trial(runs.path() / "other", trial);
  same &= report(
      fmt::format("{} rank{} instead of {}", trial.ranks, trial.ranks == 1 ? "" : "s", ranks),
      whole, other, trial.end);
  return same ? 0 : 1;
}

}  // namespace lockstep::cli
