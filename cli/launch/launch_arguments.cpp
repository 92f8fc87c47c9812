#include "cli/launch/launch_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>

#include "cli/command_words.h"
#include "cli/launch/launch_option_list.h"
#include "cli/launch/launch_values.h"
#include "core/config/nearest_name.h"
#include "core/config/run_file.h"
#include "core/run_id.h"
#include "core/system/local_address.h"
#include "launch/environment/node_env.h"
#include "launch/protocol/address.h"
#include "launch/protocol/token.h"
#include "launch/environment/worker_env.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::cli {
namespace {

constexpr int kRendezvousPort = 29400;  // torchrun's
constexpr int kMasterPort = 29500;
constexpr int kMaxNodes = 100'000, kMaxWorkers = 1024;
constexpr std::chrono::milliseconds kMinMonitorInterval{1};

std::vector<std::string> option_names(const cxxopts::Options& options) {
  std::vector<std::string> names;
  for (const auto& option : options.group_help("").options)
    for (const auto& name : option.l)
      if (name.find('_') == std::string::npos) names.push_back("--" + name);
  return names;
}

// Unknown options are left unmatched by cxxopts, so that the error can suggest the nearest one.
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
    throw config_error(
        fmt::format("{}; 'lockstep launch --help' lists the options", problem_of(error)));
  }
}

void verify_ids(const LaunchArguments& arguments) {
  if (arguments.run_id && arguments.resume && *arguments.run_id != *arguments.resume)
    throw config_error(
        fmt::format("--run-id {} and --resume {} name different runs: give only one of them",
                    *arguments.run_id, *arguments.resume));
  const std::pair<const char*, std::optional<std::string>> ids[] = {{"run-id", arguments.run_id},
                                                                    {"resume", arguments.resume}};
  for (const auto& [option, id] : ids)
    if (id && !is_run_id(*id))
      throw config_error(fmt::format("--{} {}: {}", option, *id, expected_run_id(*id)));
}

void read_num_nodes(const LaunchValues& values, launch::RendezvousOptions& rendezvous) {
  const auto text = values.text("nnodes");
  const auto colon = text.find(':');
  rendezvous.max_nodes = to_number("--nnodes", text.substr(colon + 1), 1, kMaxNodes);
  rendezvous.min_nodes = colon == std::string::npos
                             ? rendezvous.max_nodes
                             : to_number("--nnodes", text.substr(0, colon), 1, kMaxNodes);
  if (rendezvous.min_nodes > rendezvous.max_nodes)
    throw config_error(fmt::format("--nnodes {}: expected MIN:MAX with MIN <= MAX", text));
  if (values.flag("standalone") && rendezvous.max_nodes > 1)
    throw config_error(fmt::format("--standalone runs on one node, but --nnodes is {}", text));
}

// torchrun's keys, in seconds.
void read_conf(const std::string& text, launch::RendezvousOptions& rendezvous) {
  const std::map<std::string, std::chrono::milliseconds*> times = {
      {"join_timeout", &rendezvous.join_timeout},
      {"last_call_timeout", &rendezvous.last_call},
      {"keep_alive_interval", &rendezvous.keep_alive},
      {"read_timeout", &rendezvous.read_timeout}};
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const auto equals = std::min(item.find('='), item.size());
    const auto key = item.substr(0, equals);
    const auto value = equals < item.size() ? item.substr(equals + 1) : "";
    const auto what = "--rdzv-conf " + key;
    const auto time = times.find(key);
    if (time != times.end())
      *time->second = to_duration(what, value);
    else if (key == "keep_alive_max_attempt")
      rendezvous.keep_alive_attempts = to_number(what, value, 1, 1000);
    else if (key == "is_host")
      rendezvous.serves = to_number(what, value, 0, 1) == 1;
    else
      throw config_error(
          fmt::format("{}: unknown setting{}", what,
                      suggest(key, {"join_timeout", "last_call_timeout", "keep_alive_interval",
                                    "keep_alive_max_attempt", "read_timeout", "is_host"})));
  }
}

std::string read_local_addr(const LaunchValues& values) {
  const auto host = values.given("local-addr"), interface = values.given("interface");
  if (host && interface) throw config_error("--local-addr and --interface exclude each other");
  if (interface) return launch::address_of_interface(*interface);
  if (host && is_name_for_loopback(*host))
    throw config_error(
        fmt::format("--local-addr {}: resolves to {} on this machine, which other nodes cannot "
                    "reach; give a numeric address, or --interface",
                    *host, resolve(*host, 0).front().host()));
  return host ? resolve(*host, 0).front().host() : "";
}

std::optional<std::string> read_master_addr(const LaunchValues& values) {
  const auto address = values.given("master-addr");
  if (!address) return std::nullopt;
  const auto colons = std::ranges::count(*address, ':');  // several: of an IPv6 address
  if (colons == 1 || address->find("]:") != std::string::npos)
    throw config_error(fmt::format(
        "--master-addr {}: expected a host without a port; the port is --master-port", *address));
  return address;
}

// The rendezvous endpoint: --rdzv-endpoint, or node 0 at --master-addr and --master-port.
void read_endpoint(const LaunchValues& values, launch::RendezvousOptions& rendezvous) {
  const auto endpoint = values.given("rdzv-endpoint"), master = read_master_addr(values);
  const auto backend = values.given("rdzv-backend");
  if (backend && *backend != "c10d" && *backend != "static")
    throw config_error(fmt::format("--rdzv-backend {}: unknown{}", *backend,
                                   suggest(*backend, {"c10d", "static"})));
  if (backend == "static" && !rendezvous.node_rank)
    throw config_error("missing --node-rank: --rdzv-backend static requires it on every node");
  if (endpoint) {
    const auto parsed = launch::parse_endpoint(*endpoint, kRendezvousPort, "--rdzv-endpoint");
    rendezvous.host = parsed.host;
    rendezvous.port = parsed.port;
    if (rendezvous.port == 0)
      throw config_error(
          fmt::format("--rdzv-endpoint {}: port 0 is not valid with several nodes; give a fixed "
                      "port",
                      *endpoint));
    return;
  }
  if (!master)
    throw config_error(
        "missing --rdzv-endpoint (or --master-addr, the host of node 0), which is required with "
        "several nodes");
  const int port = values.number("master-port", 0, 65535);
  rendezvous.host = *master;
  rendezvous.port = port ? port : kMasterPort;
  if (rendezvous.node_rank) rendezvous.serves = *rendezvous.node_rank == 0;
}

// The node as the scheduler describes it, unless the user gives options about nodes.
std::optional<launch::NodeEnv> node_of_scheduler(const LaunchValues& values) {
  for (const char* name : {"nnodes", "node-rank", "master-addr", "rdzv-endpoint", "hostfile"})
    if (values.has(name)) return std::nullopt;
  return values.flag("standalone") ? std::nullopt : launch::read_node_env();
}

void apply_node_env(const launch::NodeEnv& node, const LaunchValues& values,
                    LaunchArguments& arguments) {
  arguments.job = node.job;
  arguments.job_restarted = node.job_restarted;
  auto& rendezvous = arguments.rendezvous;
  if (node.num_nodes == 1) return;
  rendezvous.min_nodes = rendezvous.max_nodes = node.num_nodes;
  rendezvous.node_rank = node.node_rank;
  rendezvous.serves = node.node_rank == 0;
  rendezvous.host = node.master_addr;
  rendezvous.port = values.has("master-port") ? values.number("master-port", 1, 65535)
                    : node.master_port        ? node.master_port
                                              : kMasterPort;
  if (const auto conf = values.given("rdzv-conf")) read_conf(*conf, rendezvous);
  rendezvous.token = launch::read_token(values.given("rdzv-token-file"));
}

std::vector<std::string> split_names(const std::vector<std::string>& lists) {
  std::vector<std::string> names;
  for (const auto& list : lists) {
    std::istringstream items(list);
    for (std::string name; std::getline(items, name, ',');) names.push_back(name);
  }
  return names;
}

// Options without a value, and those that --hostfile determines: they are not forwarded to the
// launchers on the hosts with their values.
bool is_not_forwarded(const std::string& name) {
  for (const char* option :
       {"hostfile", "ssh", "export", "remote-lockstep", "nproc-per-node", "nnodes", "node-rank",
        "master-addr", "master-port", "rdzv-endpoint", "rdzv-backend", "rdzv-token-file", "run-id",
        "resume", "standalone", "new-token", "help", "evaluate"})
    if (name == option) return true;
  return false;
}

void read_hosts(const LaunchValues& values, LaunchArguments& arguments) {
  arguments.hostfile = values.given("hostfile");
  for (const char* name : {"ssh", "export", "remote-lockstep"})
    if (!arguments.hostfile && values.has(name))
      throw config_error(fmt::format("--{} requires --hostfile", name));
  if (!arguments.hostfile) return;
  for (const char* name : {"nnodes", "node-rank", "rdzv-endpoint", "rdzv-backend",
                           "rdzv-token-file", "local-addr", "interface"})
    if (values.has(name))
      throw config_error(
          fmt::format("--{} and --hostfile exclude each other: the file lists the nodes", name));
  arguments.remote_lockstep = values.given("remote-lockstep");
  arguments.ssh = values.text("ssh");
  arguments.exported = split_names(values.all("export"));
  arguments.requested_workers = values.given("nproc-per-node");
  arguments.given_master_addr = read_master_addr(values);
  for (const auto& option : option_names(launch_options())) {
    const auto name = option.substr(2);
    if (is_not_forwarded(name)) continue;
    if (const auto given = values.given(name)) arguments.forwarded.push_back(option + "=" + *given);
  }
  if (values.flag("evaluate")) arguments.forwarded.emplace_back("--evaluate");
}

launch::RendezvousOptions read_rendezvous(const LaunchValues& values) {
  launch::RendezvousOptions rendezvous;
  read_num_nodes(values, rendezvous);
  if (values.has("node-rank"))
    rendezvous.node_rank = values.number("node-rank", 0, rendezvous.max_nodes - 1);
  rendezvous.join_timeout = values.duration("rdzv-timeout");
  rendezvous.local_addr = read_local_addr(values);
  if (rendezvous.max_nodes == 1) return rendezvous;
  read_endpoint(values, rendezvous);
  if (const auto conf = values.given("rdzv-conf")) read_conf(*conf, rendezvous);
  rendezvous.token = launch::read_token(values.given("rdzv-token-file"));
  return rendezvous;
}

// What the console shows: --tee if given, else everything that --redirects does not redirect.
launch::TeeSpec read_tee(const LaunchValues& values, int num_workers) {
  const auto redirects =
      launch::TeeSpec::parse("--redirects", values.text("redirects"), num_workers);
  auto tee = launch::TeeSpec::parse("--tee", values.text("tee"), num_workers);
  if (!values.has("tee") && values.has("redirects")) tee = redirects.inverted(num_workers);
  const auto filter = values.given("local-ranks-filter");
  return filter ? tee.limited_to("--local-ranks-filter", *filter, num_workers) : tee;
}

// As in torchrun: auto is one rank per GPU, or per core if there are no GPUs.
int read_num_workers(const LaunchValues& values) {
  const auto text = values.text("nproc-per-node");
  if (values.has("hostfile") && is_resolved_on_host(text)) return 1;  // not known here
  const int gpus = launch::num_usable_gpus();
  if (text == "gpu" && gpus == 0)
    throw config_error("--nproc-per-node gpu: no GPU is visible to this process");
  if (text == "gpu" || (text == "auto" && gpus > 0)) return gpus;
  if (text == "cpu" || text == "auto") return launch::num_usable_cores();
  return values.number("nproc-per-node", 1, kMaxWorkers);
}

LaunchArguments read_arguments(const LaunchValues& values) {
  LaunchArguments arguments;
  arguments.num_workers = read_num_workers(values);
  arguments.master_addr = read_master_addr(values).value_or("127.0.0.1");
  arguments.master_port = values.number("master-port", 0, 65535);
  arguments.rendezvous = read_rendezvous(values);
  if (const auto node = node_of_scheduler(values)) apply_node_env(*node, values, arguments);
  read_hosts(values, arguments);
  arguments.rdzv_id = values.text("rdzv-id");
  arguments.max_restarts = values.number("max-restarts", 0, 1'000'000);
  arguments.restart_delay = values.duration("restart-delay");
  if (values.has("restart-window")) arguments.restart_window = values.duration("restart-window");
  const auto on_loss = values.text("on-rank-loss");
  if (on_loss != "restart" && on_loss != "continue")
    throw config_error("--on-rank-loss " + on_loss + ": expected 'restart' or 'continue'");
  arguments.continues_on_loss = on_loss == "continue";
  arguments.num_spares = values.number("spares", 0, 1024);
  const int rank_restarts = values.number("rank-restarts", 0, 1'000'000);
  if (arguments.continues_on_loss)
    arguments.rank_restarts = rank_restarts;
  else if (values.has("rank-restarts") && rank_restarts > 0)
    throw config_error("--rank-restarts has no effect without --on-rank-loss continue");
  arguments.monitor_interval = values.duration("monitor-interval");
  if (arguments.monitor_interval < kMinMonitorInterval)
    throw config_error(fmt::format("--monitor-interval {}: expected at least 1 ms",
                                   values.text("monitor-interval")));
  arguments.log_dir = values.given("log-dir");
  arguments.run_id = values.given("run-id");
  arguments.resume = values.given("resume");
  arguments.program = values.given("program");
  arguments.predict = values.given("predict");
  arguments.generate = values.given("generate");
  arguments.evaluates = values.flag("evaluate");
  if (arguments.predict.has_value() + arguments.generate.has_value() + arguments.evaluates > 1)
    throw config_error("--predict, --evaluate and --generate exclude each other");
  arguments.role = values.text("role");
  arguments.tee = read_tee(values, arguments.hostfile ? kMaxWorkers : arguments.num_workers);
  arguments.stop_grace = values.duration("stop-grace");
  verify_ids(arguments);
  return arguments;
}

}  // namespace

std::vector<std::string> options_in_environment() {
  std::vector<std::string> given;
  for (const auto& option : option_names(launch_options())) {
    const auto variable = variable_of(option.substr(2));
    if (const auto value = environment(variable.c_str())) given.push_back(variable + "=" + *value);
  }
  return given;
}

bool is_resolved_on_host(const std::string& num_workers) {
  return num_workers == "auto" || num_workers == "cpu" || num_workers == "gpu";
}

LaunchArguments parse_launch_arguments(int argc, char** argv) {
  auto options = launch_options();
  char** const end = std::find_if(argv, argv + argc,
                                  [](const char* text) { return std::string_view(text) == "--"; });
  const auto result = parse(options, static_cast<int>(end - argv), argv);
  LaunchArguments arguments;
  const LaunchValues values(result);
  if (result.count("help")) {
    arguments.wants_help = true;
    arguments.help = options.help() + kAfterLaunchOptions;
    return arguments;
  }
  if (result.count("new-token")) {
    arguments.new_token = values.given("new-token");
    return arguments;
  }
  arguments = read_arguments(values);
  arguments.rest = result.unmatched();
  char** words = std::min(end + 1, argv + argc);
  // Without a run file, a command follows.
  arguments.is_command =
      words != argv + argc && !arguments.program && arguments.rest.empty() && !is_run_file(*words);
  if (arguments.is_command) arguments.program = *words++;
  arguments.rest.insert(arguments.rest.end(), words, argv + argc);
  return arguments;
}

}  // namespace lockstep::cli
