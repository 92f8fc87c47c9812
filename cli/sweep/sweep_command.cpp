// `lockstep sweep SWEEP.yaml`, and the entry point of the other commands.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/launch/launch_arguments.h"
#include "cli/launch/launch_hosts.h"
#include "cli/sweep/sweep_controller.h"
#include "cli/sweep/sweep_subcommands.h"
#include "cli/sweep/sweep_view.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/config/nearest_name.h"
#include "core/config/run_file.h"
#include "core/run_id.h"
#include "launch/environment/worker_env.h"
#include "launch/launcher.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "sweep/run_file_keys.h"
#include "tracking/log/unix_time.h"

namespace lockstep::cli {
namespace {

constexpr const char* kSweepHelp = R"(lockstep sweep: search hyper-parameters

  lockstep sweep SWEEP.yaml [-n RANKS] [--parallel K] [--join] [--json] [-- LAUNCH_OPTION...]
        run the trials of a sweep file, each as a run of RANKS ranks (default: 1), K at the same time
        (default: 1); continues a sweep that was stopped or killed. --join: together with other
        processes that run this command, also on other nodes with the same files. LAUNCH_OPTION: of
        `lockstep launch`, for each trial, such as --hostfile FILE or --max-restarts N
  lockstep sweep SWEEP.yaml [-n RANKS] --create
        create the sweep without running trials, for `add` and `ask`
  lockstep sweep list [--dir RUNS] [--json]
        list the sweeps with their state, the number of trials and the best result
  lockstep sweep show NAME [--dir RUNS] [--json]
        show the trials of a sweep, best first
  lockstep sweep best NAME [--trial N] [-o FILE] [--dir RUNS] [--json]
        show the best trial, or write its run file
  lockstep sweep stop NAME [--dir RUNS] [--json]
        stop a sweep; its running trials are continued by the next `lockstep sweep SWEEP.yaml`
  lockstep sweep export NAME [--format csv|jsonl] [-o FILE] [--dir RUNS]
        export the trials as a table
  lockstep sweep add NAME KEY=VALUE... [--dir RUNS] [--json]
        add a trial with a point of your choice, which is run next
  lockstep sweep add NAME --run ID [--dir RUNS] [--json]
        add a run that exists as a trial with its result
  lockstep sweep ask NAME [--dir RUNS] [--json]
        for other programs: the next trial, which the caller runs
  lockstep sweep tell NAME TRIAL [--value V]... [--step S] [--pruned] [--failed REASON] [--released]
                  [--dir RUNS] [--json]
        report the values of the objectives; with --step, those of an evaluation: answers whether the
        trial should be stopped, which --pruned reports. --released: it has no result, and the next
        `ask` hands it out again

NAME is the name of a sweep, or its directory RUNS/.sweeps/NAME.
RUNS is the directory of the runs, run.dir of the run file (default: runs).
)";

// What all trials have in common: the run file with the overrides of the sweep file.
Json read_base(const sweep::SweepFile& file) {
  const auto root = read_run_file(file.run, file.overrides, [](const std::string& variable) {
    return environment(variable.c_str());
  });
  if (root.kind != ConfigNode::Kind::Map)
    throw config_error(fmt::format("{}: expected a map", file.run));
  auto json = sweep::to_json(root);
  if (!json.contains("run") || !json["run"].is_object() || !json["run"].contains("name"))
    json["run"]["name"] = std::filesystem::path(file.run).stem().string();
  return json;
}

Json read_schema() {
  const auto text = run_file_schema();
  if (text.empty()) throw environment_error(fmt::format("'{} --schema' failed", trainer_program()));
  return Json::parse(text);
}

// OMP_NUM_THREADS of the ranks of all trials at the same time, unless it is set.
void divide_cores(int64_t num_ranks) {
  const auto share = std::max<int64_t>(1, launch::num_usable_cores() / num_ranks);
  set_environment_default("OMP_NUM_THREADS", std::to_string(share).c_str());
}

int number_option(const cxxopts::ParseResult& parsed, const char* name) {
  const auto value = parsed[name].as<int>();
  if (value < 1) throw config_error(fmt::format("lockstep sweep: --{} must be at least 1", name));
  return value;
}

// Warm starts are for trials on the CPU only.
bool uses_no_gpu(const Json& base, const sweep::Space& space) {
  if (launch::num_usable_gpus() == 0) return true;
  if (space.find("distributed") || space.find("distributed.device")) return false;
  const auto distributed = base.find("distributed");
  return distributed != base.end() && distributed->is_object() &&
         distributed->value("device", Json()) == "cpu";
}

// How a trial is launched.
struct TrialLaunch {
  std::vector<std::string> options;  // of `lockstep launch`
  int ranks = 1;                     // on all nodes
  bool is_on_hosts = false;          // --hostfile
};

// `given`: what follows "--". `ranks`: -n, if given; else 1, or the slots of the hosts.
TrialLaunch read_launch(const std::vector<std::string>& given, std::optional<int> ranks) {
  const auto is_number_of_ranks = [](const std::string& word) {
    return word == "-n" || word.starts_with("--nproc");
  };
  if (const auto word = std::ranges::find_if(given, is_number_of_ranks); word != given.end())
    throw config_error(fmt::format("lockstep sweep: give {} before --, as -n", *word));
  const bool is_on_hosts = std::ranges::any_of(
      given, [](const std::string& word) { return word.starts_with("--hostfile"); });
  TrialLaunch launch{.options = given, .is_on_hosts = is_on_hosts};
  if (!is_on_hosts) launch.options.emplace_back("--standalone");  // also on a node of a Slurm job
  if (ranks) launch.options.insert(launch.options.end(), {"-n", std::to_string(*ranks)});
  auto words = launch.options;
  words.insert(words.begin(), "launch");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  const auto arguments = parse_launch_arguments(static_cast<int>(argv.size()), argv.data());
  const bool is_other = arguments.run_id || arguments.resume || !arguments.trains() ||
                        arguments.program || arguments.new_token || arguments.wants_help;
  if (is_other || !arguments.rest.empty())
    throw config_error(
        "lockstep sweep: after --, expected options that say how `lockstep launch` starts the "
        "ranks, such as --hostfile FILE or --max-restarts N");
  launch.ranks = is_on_hosts ? ranks_on_hosts(arguments) : arguments.num_workers;
  return launch;
}

int run_sweep(std::vector<std::string> words) {
  launch::open_standard_streams();
  const auto separator = std::ranges::find(words, "--");
  std::vector<std::string> after(separator, words.end());
  words.erase(separator, words.end());
  if (!after.empty()) after.erase(after.begin());
  cxxopts::Options known("lockstep sweep");
  known.add_options()("n,ranks", "", cxxopts::value<int>())(
      "parallel", "", cxxopts::value<int>()->default_value("1"))("create", "")("join", "")("json",
                                                                                           "");
  known.add_options(kPositional)("file", "", cxxopts::value<std::vector<std::string>>());
  known.parse_positional({"file"});
  std::vector<std::string> arguments = {"sweep"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const auto parsed = parse_words(known, arguments);
  const auto files = parsed["file"].as<std::vector<std::string>>();
  if (files.size() > 1)
    throw config_error(fmt::format("lockstep sweep: unexpected argument '{}'", files[1]));

  const auto ranks =
      parsed.count("ranks") ? std::optional(number_option(parsed, "ranks")) : std::nullopt;
  const auto launch = read_launch(after, ranks);
  const auto file = sweep::read_sweep_file(files.front());
  const auto base = read_base(file);
  sweep::verify_keys(file.space, read_schema(), base);
  const std::string runs = base["run"].value("dir", kRunsDir);
  RunSection{.dir = runs}.verify_dir();
  const auto sweep = sweep::SweepDirectory::open_or_create(sweep::sweeps_path(runs) / file.name,
                                                           {.id = new_run_id(file.name),
                                                            .created = tracking::unix_now(),
                                                            .ranks = launch.ranks,
                                                            .file = file},
                                                           base);
  if (parsed.count("create")) return 0;
  const auto parallel = number_option(parsed, "parallel");
  const bool is_warm = !launch.is_on_hosts && uses_no_gpu(base, file.space);
  const bool divides_gpus = parallel > 1 && !is_warm && !launch.is_on_hosts;
  if (parallel > 1 && !launch.is_on_hosts)
    divide_cores(std::min(int64_t{parallel}, file.budget.trials.value_or(parallel)) * launch.ranks);
  const SweepOptions options{
      .parallel = parallel,
      .joins = parsed.count("join") > 0,
      .is_warm = is_warm,
      .json = parsed.count("json") > 0,
      .launch = launch.options,
      .gpus = divides_gpus ? launch::usable_gpus() : std::vector<std::string>()};
  return SweepController(sweep, options, std::cout).run();
}

}  // namespace

int sweep_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (wants_help(words)) {
    std::cout << kSweepHelp;
    return 0;
  }
  if (std::ranges::any_of(words, [](const auto& word) { return is_run_file(word); }) &&
      !is_sweep_subcommand(words.front()))
    return run_sweep(words);
  run_sweep_subcommand(words, std::cout);
  if (!std::cout.flush()) throw environment_error("lockstep sweep: cannot write the output");
  return 0;
}

}  // namespace lockstep::cli
