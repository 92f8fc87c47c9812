#include "cli/launch/launch_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cxxopts.hpp>
#include <map>
#include <sstream>
#include <string_view>

#include "cli/launch/launch_values.h"
#include "core/config/nearest_name.h"
#include "core/run_id.h"
#include "core/system/local_address.h"
#include "launch/environment/node_env.h"
#include "launch/protocol/address.h"
#include "launch/protocol/token.h"
#include "launch/workers/worker_env.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr auto kAfterOptions = R"(
CONFIG and the overrides go to every worker as they are. Write -- before arguments of a program of
your own that begin with a dash. What is not given is taken from the environment variable PET_<NAME>,
as in PET_NNODES=2.
Logs: <run.dir>/<run id>/logs/attempt_<n>/<local rank>/{stdout.log,stderr.log}; with several nodes
<run.dir>/<run id>/logs/node_<k>/attempt_<n>/...
Exit codes: 0 done, 78 wrong input, 75 the environment failed (a restart may help), 70 a bug,
128+N stopped by signal N.
)";

constexpr int kRendezvousPort = 29400;  // torchrun's
constexpr int kMasterPort = 29500;
constexpr int kMaxNodes = 100'000;

auto default_text(const char* value) { return cxxopts::value<std::string>()->default_value(value); }

void add_worker_options(cxxopts::Options& options) {
  auto add = options.add_options();
  const auto value = [] { return cxxopts::value<std::string>(); };
  add("n,nproc_per_node,nproc-per-node",
      "ranks on this node; auto: one for each GPU, or, without, each core; cpu, gpu",
      default_text("1"), "N");
  add("max-restarts,max_restarts", "how often the ranks may be started again after a failure",
      default_text("0"), "N");
  add("restart-window,restart_window",
      "count only restarts within this time, as in 1h (default: all count)", value(), "TIME");
  add("restart-delay,restart_delay",
      "pause when restarts in a row get no further; doubles each time, up to 1 min",
      default_text("1 s"), "TIME");
  add("stop-grace,stop_grace", "time from SIGTERM to SIGKILL, as in 10s", default_text("30 s"),
      "TIME");
  add("monitor-interval,monitor_interval", "how often nodes tell their status at most",
      default_text("100 ms"), "TIME");
  add("log-dir,log_dir", "where logs go", value(), "DIR");
  add("t,tee", "what is shown: 0 nothing, 1 stdout, 2 stderr, 3 both, or 0:3,1:2 by local rank",
      default_text("3"), "SPEC");
  add("r,redirects", "what is in the log files only, written like --tee", default_text("0"),
      "SPEC");
  add("local-ranks-filter,local_ranks_filter", "show the output of these local ranks only, as 0,2",
      value(), "LIST");
  add("role", "ROLE_NAME of the ranks", default_text("default"), "NAME");
  add("run-id,run_id", "name of the new run (default: made from run.name and the time)", value(),
      "ID");
  add("resume", "go on with this run", value(), "ID");
  add("predict",
      "train nothing: write what the model predicts for the evaluation data to this file", value(),
      "FILE");
  add("program", "start this instead of lockstep-trainer", value(), "PATH");
}

void add_node_options(cxxopts::Options& options) {
  auto add = options.add_options();
  const auto value = [] { return cxxopts::value<std::string>(); };
  add("nnodes", "number of nodes, or MIN:MAX", default_text("1"), "N");
  add("node-rank,node_rank", "which node this is, from 0 (default: by arrival, node 0 serves)",
      value(), "K");
  add("master-addr,master_addr", "host of node 0, where the nodes meet", value(), "HOST");
  add("master-port,master_port", "its port (default: 29500; on one node a free one for rank 0)",
      default_text("0"), "PORT");
  add("rdzv-endpoint,rdzv_endpoint", "where the nodes meet; its host serves (default port 29400)",
      value(), "HOST[:PORT]");
  add("rdzv-id,rdzv_id", "name of the job, the same on every node", default_text("none"), "NAME");
  add("rdzv-backend,rdzv_backend", "c10d (any order) or static (each node has a --node-rank)",
      value(), "NAME");
  add("rdzv-token-file,rdzv_token_file", "holds the job's secret (or LOCKSTEP_RDZV_TOKEN)", value(),
      "FILE");
  add("rdzv-timeout,rdzv_timeout", "how long to wait for the other nodes", default_text("10 min"),
      "TIME");
  add("rdzv-conf,rdzv_conf",
      "last_call_timeout=30,keep_alive_interval=5,keep_alive_max_attempt=3,"
      "read_timeout=60,join_timeout=600 in seconds, is_host=1",
      value(), "K=V,...");
  add("local-addr,local_addr", "where other nodes reach this one", value(), "HOST");
  add("interface", "the same, by network interface", value(), "NAME");
  add("standalone", "one node");
  add("new-token,new_token", "make a secret for --rdzv-token-file, and do nothing else", value(),
      "FILE");
}

void add_host_options(cxxopts::Options& options) {
  auto add = options.add_options();
  const auto value = [] { return cxxopts::value<std::string>(); };
  add("hostfile", "start on each host of this file through ssh: [user@]host[:port] [slots=N]",
      value(), "FILE");
  add("ssh", "the ssh command for --hostfile, with options of your own", default_text("ssh"),
      "COMMAND");
  add("export", "environment variables that --hostfile passes on", value(), "A,B");
  add("remote-lockstep,remote_lockstep", "where lockstep is on the hosts (default: as here)",
      value(), "PATH");
}

cxxopts::Options make_options() {
  cxxopts::Options options("lockstep launch", "Start the ranks of one node and watch them.\n");
  options.custom_help("[OPTION...] CONFIG [a.b=value ...]").set_width(100);
  add_worker_options(options);
  add_node_options(options);
  add_host_options(options);
  options.add_options()("h,help", "print this");
  return options;
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
  options.allow_unrecognized_options();
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

void verify_ids(const LaunchArguments& arguments) {
  if (arguments.run_id && arguments.resume && *arguments.run_id != *arguments.resume)
    throw config_error(
        fmt::format("--run-id {} and --resume {} name different runs: give one of them",
                    *arguments.run_id, *arguments.resume));
  const std::pair<const char*, std::optional<std::string>> ids[] = {{"run-id", arguments.run_id},
                                                                    {"resume", arguments.resume}};
  for (const auto& [option, id] : ids)
    if (id && !is_run_id(*id))
      throw config_error(
          fmt::format("--{} {}: expected letters, digits, '_', '.' and '-', at most 200, not "
                      "beginning with '.'",
                      option, *id));
}

void read_num_nodes(const LaunchValues& values, launch::RendezvousOptions& rendezvous) {
  const auto text = values.text("nnodes");
  const auto colon = text.find(':');
  rendezvous.max_nodes = to_number("--nnodes", text.substr(colon + 1), 1, kMaxNodes);
  rendezvous.min_nodes = colon == std::string::npos
                             ? rendezvous.max_nodes
                             : to_number("--nnodes", text.substr(0, colon), 1, kMaxNodes);
  if (rendezvous.min_nodes > rendezvous.max_nodes)
    throw config_error(
        fmt::format("--nnodes {}: expected MIN:MAX, the smaller number first", text));
  if (values.flag("standalone") && rendezvous.max_nodes > 1)
    throw config_error(fmt::format("--standalone is one node, but --nnodes is {}", text));
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
          fmt::format("{}: no such setting{}", what,
                      suggest(key, {"join_timeout", "last_call_timeout", "keep_alive_interval",
                                    "keep_alive_max_attempt", "read_timeout", "is_host"})));
  }
}

std::string read_local_addr(const LaunchValues& values) {
  const auto host = values.given("local-addr"), interface = values.given("interface");
  if (host && interface)
    throw config_error("--local-addr and --interface say the same: give only one of them");
  if (interface) return launch::address_of_interface(*interface);
  if (host && is_name_for_loopback(*host))
    throw config_error(
        fmt::format("--local-addr {}: on this machine that name is {}, which other nodes cannot "
                    "reach; give a numeric address, or --interface",
                    *host, resolve(*host, 0).front().host()));
  return host ? resolve(*host, 0).front().host() : "";
}

// Where the nodes meet: at --rdzv-endpoint, or at node 0 as --master-addr and --master-port say.
void read_endpoint(const LaunchValues& values, launch::RendezvousOptions& rendezvous) {
  const auto endpoint = values.given("rdzv-endpoint"), master = values.given("master-addr");
  const auto backend = values.given("rdzv-backend");
  if (backend && *backend != "c10d" && *backend != "static")
    throw config_error(fmt::format("--rdzv-backend {}: unknown{}", *backend,
                                   suggest(*backend, {"c10d", "static"})));
  if (backend == "static" && !rendezvous.node_rank)
    throw config_error("--node-rank is missing: with --rdzv-backend static each node has its own");
  if (endpoint) {
    const auto parsed = launch::parse_endpoint(*endpoint, kRendezvousPort, "--rdzv-endpoint");
    rendezvous.host = parsed.host;
    rendezvous.port = parsed.port;
    if (rendezvous.port == 0)
      throw config_error(
          fmt::format("--rdzv-endpoint {}: with several nodes all must know the port", *endpoint));
    return;
  }
  if (!master)
    throw config_error(
        "--rdzv-endpoint (or --master-addr, the host of node 0) is missing: with several nodes it "
        "says where they meet");
  const int port = values.number("master-port", 0, 65535);
  rendezvous.host = *master;
  rendezvous.port = port ? port : kMasterPort;
  if (rendezvous.node_rank) rendezvous.serves = *rendezvous.node_rank == 0;
}

// Without a word of the user about nodes, the scheduler's counts.
std::optional<launch::NodeEnv> node_of_scheduler(const LaunchValues& values) {
  for (const char* name : {"nnodes", "node-rank", "master-addr", "rdzv-endpoint", "hostfile"})
    if (values.has(name)) return std::nullopt;
  return values.flag("standalone") ? std::nullopt : launch::read_node_env();
}

void take_node(const launch::NodeEnv& node, const LaunchValues& values,
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

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream items(text);
  for (std::string name; std::getline(items, name, ',');) names.push_back(name);
  return names;
}

// What of the options the hosts' launchers are not given as it is: --hostfile says it for them.
bool is_said_by_hostfile(const std::string& name) {
  for (const char* own :
       {"hostfile", "ssh", "export", "remote-lockstep", "nproc-per-node", "nnodes", "node-rank",
        "master-addr", "master-port", "rdzv-endpoint", "rdzv-backend", "rdzv-token-file", "run-id",
        "resume", "standalone", "new-token", "help"})
    if (name == own) return true;
  return false;
}

void read_hosts(const LaunchValues& values, LaunchArguments& arguments) {
  arguments.hostfile = values.given("hostfile");
  for (const char* name : {"ssh", "export", "remote-lockstep"})
    if (!arguments.hostfile && values.has(name))
      throw config_error(fmt::format("--{} is for --hostfile, which is not given", name));
  if (!arguments.hostfile) return;
  for (const char* name : {"nnodes", "node-rank", "rdzv-endpoint", "rdzv-backend",
                           "rdzv-token-file", "local-addr", "interface"})
    if (values.has(name))
      throw config_error(fmt::format(
          "--{} and --hostfile exclude each other: the file says which hosts there are", name));
  arguments.remote_lockstep = values.given("remote-lockstep");
  arguments.ssh = values.text("ssh");
  arguments.exported = split_names(values.given("export").value_or(""));
  arguments.wanted_workers = values.given("nproc-per-node");
  arguments.given_master_addr = values.given("master-addr");
  for (const auto& option : option_names(make_options())) {
    const auto name = option.substr(2);
    if (is_said_by_hostfile(name)) continue;
    if (const auto given = values.given(name)) arguments.forwarded.push_back(option + "=" + *given);
  }
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

// What the console shows: --tee where it is given, else what --redirects leaves.
launch::TeeSpec read_tee(const LaunchValues& values, int num_workers) {
  const auto redirects =
      launch::TeeSpec::parse("--redirects", values.text("redirects"), num_workers);
  auto tee = launch::TeeSpec::parse("--tee", values.text("tee"), num_workers);
  if (!values.has("tee") && values.has("redirects")) tee = redirects.inverted(num_workers);
  const auto filter = values.given("local-ranks-filter");
  return filter ? tee.limited_to("--local-ranks-filter", *filter, num_workers) : tee;
}

// torchrun's words: auto is a rank for each GPU where there are some, else for each core.
int read_num_workers(const LaunchValues& values) {
  const auto text = values.text("nproc-per-node");
  const int gpus = launch::num_usable_gpus();
  if (text == "gpu" && gpus == 0)
    throw config_error("--nproc-per-node gpu: this process sees no GPU");
  if (text == "gpu" || (text == "auto" && gpus > 0)) return gpus;
  if (text == "cpu" || text == "auto") return launch::num_usable_cores();
  return values.number("nproc-per-node", 1, 1024);
}

LaunchArguments read_arguments(const LaunchValues& values) {
  LaunchArguments arguments;
  arguments.num_workers = read_num_workers(values);
  arguments.master_addr = values.given("master-addr").value_or("127.0.0.1");
  arguments.master_port = values.number("master-port", 0, 65535);
  arguments.rendezvous = read_rendezvous(values);
  if (const auto node = node_of_scheduler(values)) take_node(*node, values, arguments);
  read_hosts(values, arguments);
  arguments.rdzv_id = values.text("rdzv-id");
  arguments.max_restarts = values.number("max-restarts", 0, 1'000'000);
  arguments.restart_delay = values.duration("restart-delay");
  if (values.has("restart-window")) arguments.restart_window = values.duration("restart-window");
  arguments.monitor_interval = values.duration("monitor-interval");
  arguments.log_dir = values.given("log-dir");
  arguments.run_id = values.given("run-id");
  arguments.resume = values.given("resume");
  arguments.program = values.given("program");
  arguments.predict = values.given("predict");
  arguments.role = values.text("role");
  arguments.tee = read_tee(values, arguments.num_workers);
  arguments.stop_grace = values.duration("stop-grace");
  verify_ids(arguments);
  return arguments;
}

}  // namespace

LaunchArguments parse_launch_arguments(int argc, char** argv) {
  auto options = make_options();
  char** const end = std::find_if(argv, argv + argc,
                                  [](const char* text) { return std::string_view(text) == "--"; });
  const auto result = parse(options, static_cast<int>(end - argv), argv);
  LaunchArguments arguments;
  const LaunchValues values(result);
  if (result.count("help")) {
    arguments.wants_help = true;
    arguments.help = options.help() + kAfterOptions;
    return arguments;
  }
  if (result.count("new-token")) {
    arguments.new_token = values.given("new-token");
    return arguments;
  }
  arguments = read_arguments(values);
  arguments.rest = result.unmatched();
  if (end != argv + argc) arguments.rest.insert(arguments.rest.end(), end + 1, argv + argc);
  return arguments;
}

}  // namespace lockstep::cli
