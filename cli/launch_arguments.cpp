#include "cli/launch_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cxxopts.hpp>
#include <string_view>

#include "core/error.h"
#include "core/nearest_name.h"
#include "core/period.h"
#include "core/run_id.h"
#include "launch/node_env.h"
#include "launch/worker_env.h"

namespace lockstep {
namespace {

constexpr auto kAfterOptions = R"(
CONFIG and the overrides go to every worker as they are. Write -- before arguments of a program of
your own that begin with a dash.
Logs: <run.dir>/<run id>/logs/attempt_<n>/<local rank>/{stdout.log,stderr.log}.
Exit codes: 0 done, 78 wrong input, 75 the environment failed (a restart may help), 70 a bug,
128+N stopped by signal N.
)";

cxxopts::Options make_options() {
  const auto text = [](const char* value) {
    return cxxopts::value<std::string>()->default_value(value);
  };
  cxxopts::Options options("lockstep launch", "Start the ranks of one node and watch them.\n");
  options.custom_help("[OPTION...] CONFIG [a.b=value ...]").set_width(100);
  auto add = options.add_options();
  add("n,nproc_per_node,nproc-per-node", "ranks on this node, or 'auto': one for each core",
      text("1"), "N");
  add("nnodes", "number of nodes; all have as many ranks", text("1"), "N");
  add("node-rank,node_rank", "which node this is, from 0", text("0"), "K");
  add("master-addr,master_addr", "host of node 0", text("127.0.0.1"), "HOST");
  add("master-port,master_port", "its port; 0: a free one (29500 with several nodes)", text("0"),
      "PORT");
  add("log-dir,log_dir", "where logs go", cxxopts::value<std::string>(), "DIR");
  add("t,tee", "what is shown: 0 nothing, 1 stdout, 2 stderr, 3 both, or 0:3,1:2 by local rank",
      text("3"), "SPEC");
  add("grace", "time from SIGTERM to SIGKILL, as in 10s", text("30 s"), "TIME");
  add("run-id,run_id", "name of the new run (default: made from run.name and the time)",
      cxxopts::value<std::string>(), "ID");
  add("resume", "go on with this run", cxxopts::value<std::string>(), "ID");
  add("hostfile", "start on each host of this file through ssh: [user@]host[:port] [slots=N]",
      cxxopts::value<std::string>(), "FILE");
  add("ssh", "the ssh command for --hostfile, with options of your own", text("ssh"), "COMMAND");
  add("export", "environment variables that --hostfile passes on, as A,B",
      cxxopts::value<std::vector<std::string>>(), "NAMES");
  add("remote-lockstep,remote_lockstep", "where lockstep is on the hosts (default: as here)",
      cxxopts::value<std::string>(), "PATH");
  add("program", "start this instead of lockstep-trainer", cxxopts::value<std::string>(), "PATH");
  add("h,help", "print this");
  return options;
}

int to_int(const std::string& option, const std::string& text, int least, int most) {
  int value = 0;
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end || value < least || value > most)
    throw config_error(
        fmt::format("--{} {}: expected a number from {} to {}", option, text, least, most));
  return value;
}

std::chrono::milliseconds to_duration(const std::string& text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::Scalar;
  node.scalar = text;
  node.origin = "command line";
  return ConfigValue<Duration>::read(node, "--grace").value;
}

std::vector<std::string> option_names(const cxxopts::Options& options) {
  std::vector<std::string> names;
  for (const auto& option : options.group_help("").options)
    for (const auto& name : option.l)
      if (name.find('_') == std::string::npos) names.push_back("--" + name);
  return names;
}

// What the library does not know it leaves over, so that our message can say what is near.
cxxopts::ParseResult parse(cxxopts::Options& options, int argc, char** argv) {
  options.allow_unrecognised_options();
  try {
    auto result = options.parse(argc, argv);
    for (const auto& given : result.unmatched())
      if (given.size() > 1 && given.front() == '-')
        throw config_error(
            fmt::format("unknown option '{}'{}", given,
                        suggest(given.substr(0, given.find('=')), option_names(options))));
    return result;
  } catch (const cxxopts::exceptions::exception& error) {
    throw config_error(fmt::format("{}; 'lockstep launch --help' lists the options", error.what()));
  }
}

std::optional<std::string> optional_text(const cxxopts::ParseResult& result,
                                         const std::string& name) {
  if (!result.count(name)) return std::nullopt;
  auto text = result[name].as<std::string>();
  if (text.empty()) throw config_error(fmt::format("--{}: expected a value, got nothing", name));
  return text;
}

// Without a word about nodes on the command line, the scheduler's counts.
void take_node_of_scheduler(const cxxopts::ParseResult& result, LaunchArguments& arguments) {
  if (result.count("nnodes") || result.count("node-rank") || result.count("master-addr")) return;
  const auto node = read_node_env();
  if (!node) return;
  arguments.num_nodes = node->num_nodes;
  arguments.node_rank = node->node_rank;
  arguments.job = node->job;
  arguments.job_restarted = node->job_restarted;
  if (node->num_nodes == 1) return;
  arguments.master_addr = node->master_addr;
  if (!result.count("master-port")) arguments.master_port = node->master_port;
}

void take_hosts(const cxxopts::ParseResult& result, LaunchArguments& arguments) {
  arguments.hostfile = optional_text(result, "hostfile");
  arguments.remote_lockstep = optional_text(result, "remote-lockstep");
  arguments.ssh = result["ssh"].as<std::string>();
  if (result.count("export")) arguments.exported = result["export"].as<std::vector<std::string>>();
  arguments.has_num_workers = result.count("nproc-per-node") > 0;
  arguments.has_master_addr = result.count("master-addr") > 0;
  for (const char* name : {"ssh", "export", "remote-lockstep"})
    if (!arguments.hostfile && result.count(name))
      throw config_error(fmt::format("--{} is for --hostfile, which is not given", name));
  for (const char* name : {"nnodes", "node-rank"})
    if (arguments.hostfile && result.count(name))
      throw config_error(
          fmt::format("--{} and --hostfile exclude each other: the file says which "
                      "hosts there are",
                      name));
}

void verify_ids(const LaunchArguments& arguments) {
  if (arguments.run_id && arguments.resume)
    throw config_error("--run-id names a new run and --resume an old one: give only one of them");
  const std::pair<const char*, std::optional<std::string>> ids[] = {{"run-id", arguments.run_id},
                                                                    {"resume", arguments.resume}};
  for (const auto& [option, id] : ids)
    if (id && !is_run_id(*id))
      throw config_error(
          fmt::format("--{} {}: expected letters, digits, '_', '.' and '-', at most 200, not "
                      "beginning with '.'",
                      option, *id));
}

}  // namespace

LaunchArguments parse_launch_arguments(int argc, char** argv) {
  auto options = make_options();
  char** const end = std::find_if(argv, argv + argc,
                                  [](const char* text) { return std::string_view(text) == "--"; });
  const auto result = parse(options, static_cast<int>(end - argv), argv);
  LaunchArguments arguments;
  if (result.count("help")) {
    arguments.wants_help = true;
    arguments.help = options.help() + kAfterOptions;
    return arguments;
  }
  const auto text = [&](const char* name) { return result[name].as<std::string>(); };
  arguments.num_workers = text("nproc-per-node") == "auto"
                              ? num_usable_cores()
                              : to_int("nproc-per-node", text("nproc-per-node"), 1, 1024);
  arguments.num_nodes = to_int("nnodes", text("nnodes"), 1, 100'000);
  arguments.node_rank = to_int("node-rank", text("node-rank"), 0, arguments.num_nodes - 1);
  arguments.master_addr = text("master-addr");
  arguments.master_port = to_int("master-port", text("master-port"), 0, 65535);
  if (arguments.num_nodes > 1 && !result.count("master-addr"))
    throw config_error("--master-addr is missing: with several nodes it names the host of node 0");
  take_hosts(result, arguments);
  if (!arguments.hostfile) take_node_of_scheduler(result, arguments);
  arguments.log_dir = optional_text(result, "log-dir");
  arguments.run_id = optional_text(result, "run-id");
  arguments.resume = optional_text(result, "resume");
  arguments.program = optional_text(result, "program");
  arguments.tee = text("tee");
  arguments.grace = to_duration(text("grace"));
  arguments.rest = result.unmatched();
  if (end != argv + argc) arguments.rest.insert(arguments.rest.end(), end + 1, argv + argc);
  verify_ids(arguments);
  return arguments;
}

}  // namespace lockstep
