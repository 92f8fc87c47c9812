#include "cli/launch/launch_hosts.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cli/commands.h"
#include "cli/launch/launch_values.h"
#include "cli/trainer_program.h"
#include "core/system/durable_file.h"
#include "core/system/local_address.h"
#include "launch/environment/job_port.h"
#include "launch/protocol/token.h"
#include "launch/ssh/remote_node.h"
#include "launch/ssh/remote_start.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "lockstep/version.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxHostfileBytes = 16u << 20;

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<launch::Host> read_hostfile(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw config_error(fmt::format("--hostfile {}: there is no such file", path));
  return launch::parse_hostfile(read_file(path, kMaxHostfileBytes), path);
}

// The address of node 0: as given by the user, or that of this machine.
std::string find_master_addr(const LaunchArguments& arguments,
                             const std::vector<launch::Host>& hosts) {
  if (arguments.given_master_addr) return *arguments.given_master_addr;
  if (!is_this_host(hosts.front())) return hosts.front().name;
  for (const auto& host : hosts)
    if (!is_this_host(host)) return local_address_for(host.name).value_or(own_host_name());
  return "127.0.0.1";
}

std::map<std::string, std::string> exported(const std::vector<std::string>& names) {
  std::map<std::string, std::string> variables;
  for (const auto& name : names) {
    const auto value = environment(name.c_str());
    if (!value)
      throw config_error(fmt::format("--export {}: environment variable is not set", name));
    variables[name] = *value;
  }
  return variables;
}

std::optional<int> requested_ranks(const LaunchArguments& arguments) {
  const auto& text = arguments.requested_workers;
  if (!text || is_resolved_on_host(*text)) return std::nullopt;
  return to_number("--nproc-per-node", *text, 1, 1024);
}

std::string ranks_of(const LaunchArguments& arguments, const launch::Host& host) {
  if (arguments.requested_workers && is_resolved_on_host(*arguments.requested_workers))
    return *arguments.requested_workers;
  return std::to_string(ranks_on(host, requested_ranks(arguments), *arguments.hostfile));
}

std::vector<launch::NodeOrder> make_orders(const LaunchArguments& arguments,
                                           const std::vector<launch::Host>& hosts,
                                           const std::string& run_id) {
  launch::NodeOrder order{.version = kVersion,
                          .directory = fs::current_path().string(),
                          .arguments = {"launch"},
                          .environment = exported(arguments.exported),
                          .grace = arguments.stop_grace};
  order.environment["LOCKSTEP_RDZV_TOKEN"] = launch::random_hex(32);
  const int port = arguments.master_port ? arguments.master_port : launch::job_port(run_id);
  auto& words = order.arguments;
  words.insert(words.end(), arguments.forwarded.begin(), arguments.forwarded.end());
  words.insert(words.end(),
               {"--nnodes", std::to_string(hosts.size()), "--master-addr",
                find_master_addr(arguments, hosts), "--master-port", std::to_string(port),
                arguments.resume ? "--resume" : "--run-id", run_id});
  std::vector<launch::NodeOrder> orders(hosts.size(), order);
  for (size_t node = 0; node < hosts.size(); ++node) {
    auto& own = orders[node].arguments;
    own.insert(own.end(),
               {"-n", ranks_of(arguments, hosts[node]), "--node-rank", std::to_string(node)});
    auto rest = arguments.rest.begin();
    if (!arguments.program) own.push_back(*rest++);  // after "--" it could be taken for a program
    own.emplace_back("--");
    if (arguments.is_command) own.push_back(*arguments.program);
    own.insert(own.end(), rest, arguments.rest.end());
  }
  return orders;
}

}  // namespace

int launch_on_hosts(const LaunchArguments& arguments, const std::string& run_id) {
  const auto hosts = read_hostfile(*arguments.hostfile);
  launch::RemoteLaunch launch{.hosts = hosts, .orders = make_orders(arguments, hosts, run_id)};
  launch.ssh = split_words(arguments.ssh);
  if (launch.ssh.empty()) throw config_error("--ssh: expected a command, got nothing");
  launch.own_program = own_program();
  launch.program = arguments.remote_lockstep.value_or(launch.own_program);
  launch.grace = arguments.stop_grace;
  const auto end = run_on_hosts(launch);
  if (!end.summary.empty()) fmt::print(stderr, "lockstep: {}\n", end.summary);
  if (!end.is_console_complete)
    fmt::print(stderr, "lockstep: this console lacks output of the hosts: see the logs there\n");
  return end.exit_code;
}

int ranks_on_hosts(const LaunchArguments& arguments) {
  if (arguments.requested_workers && is_resolved_on_host(*arguments.requested_workers))
    throw config_error(fmt::format("-n {}: with --hostfile, a number is needed here",
                                   *arguments.requested_workers));
  int ranks = 0;
  for (const auto& host : read_hostfile(*arguments.hostfile))
    ranks += ranks_on(host, requested_ranks(arguments), *arguments.hostfile);
  return ranks;
}

int launch_node_command(int, char**) { return launch::run_remote_node(own_program()); }

}  // namespace lockstep::cli
