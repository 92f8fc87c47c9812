// `lockstep track` (the tracking agent) and `lockstep sync` (delivery after the end of a run).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cxxopts.hpp>
#include <filesystem>
#include <iterator>

#include "catalog/run_list.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "core/config/launch_sections.h"
#include "core/config/period.h"
#include "core/printable.h"
#include "core/system/thread_priority.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/agent/agent.h"
#include "tracking/agent/agent_status.h"
#include "tracking/agent/sync.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrackHelp = R"(lockstep track: run the tracking agent of a node (internal)

  lockstep track RUN_DIR [--node-rank N] [--logs N]

Feeds the sinks of the run in RUN_DIR from its event logs, samples system metrics, and records the
outcome of a run whose process could not. The trainer starts one per node; started manually, it
continues where the previous one stopped.

  --node-rank N   node whose logs it reads (default: 0)
  --logs N        number of logging ranks; it starts when their logs exist (default: 1)
  --pid PID       process of a rank to sample, even if the rank does not log; repeatable
  --attached      exit at the end of standard input
  --launcher PID  process that records the outcome of the run after all ranks have exited
  --logs-may-move ranks of this node may continue logs of other nodes

If nodes share no file system (set by the trainer, with LOCKSTEP_FORWARDING_TOKEN):
  --forward-to URL   send the logs to the agent of rank 0's node, which feeds the sinks
  --receive-from N   receive the logs of node N, on the socket open as descriptor 3
  --receive-logs N   number of rank logs to expect
)";

constexpr const char* kSyncHelp = R"(lockstep sync: send a recorded run to its sinks

  lockstep sync RUN [--sink SINK]... [--dir RUNS] [--timeout '10 min']

Sends the records that the sinks do not have yet, each exactly once: after a crash, after a network
outage, or to a sink that the run did not use. RUN is a run id, a unique prefix of one, or a run
directory.

  --sink SINK     only this sink: a name, or as in a run file: '{name: mlflow, tracking_uri: URL}';
                  repeatable (default: the sinks of the run)
  --dir RUNS      directory of the runs (default: runs)
  --timeout TIME  give up after this time (default: 10 min)

Exit codes: 0 complete, 75 incomplete (run it again), 78 invalid input.
)";

Environment environment_of_process() {
  return [](const std::string& name) { return environment(name.c_str()); };
}

fs::path existing_run(const fs::path& path) {
  std::error_code error;
  const auto dir = fs::weakly_canonical(path, error);
  if (!fs::is_directory(dir / "events", error))
    throw config_error(fmt::format("'{}' is not a run directory", path.string()));
  return dir;
}

Duration parse_timeout(const std::string& text) {
  const ConfigNode node{
      .kind = ConfigNode::Kind::Scalar, .scalar = text, .origin = "lockstep sync"};
  return ConfigValue<Duration>::read(node, "--timeout");
}

// Errors name `origin` instead of a file and line.
void name_origin(ConfigNode& node, const std::string& origin) {
  node.origin = origin;
  for (auto& item : node.items) name_origin(item, origin);
  for (auto& member : node.members) name_origin(member.value, origin);
}

// The sinks of one --sink.
std::vector<ConfigNode> parse_sinks(const std::string& text) {
  try {
    auto root = parse_config("sinks: [" + text + "]", "--sink");
    name_origin(root, "lockstep sync");
    return root.find("sinks")->items;
  } catch (const Error&) {
    throw config_error(fmt::format(
        "lockstep sync: --sink {}: not valid YAML; expected a name, or as in a run file: '{{name: "
        "mlflow, tracking_uri: URL}}'",
        printable(text, 200)));
  }
}

std::vector<ConfigNode> parse_all_sinks(const std::vector<std::string>& texts) {
  std::vector<ConfigNode> sinks;
  for (const auto& text : texts) std::ranges::move(parse_sinks(text), std::back_inserter(sinks));
  return sinks;
}

// A sink given by name alone gets its settings from the run, if the run has it.
void choose_sinks(tracking::TrackingConfig& config, const std::vector<ConfigNode>& given) {
  ConfigNode list{.kind = ConfigNode::Kind::List};
  for (const auto& sink : given) {
    const bool is_name = sink.kind == ConfigNode::Kind::Scalar;
    const auto* const own = is_name ? config.sinks.find(sink.scalar) : nullptr;
    list.items.push_back(own ? parse_sinks(own->dump().dump()).front() : sink);
  }
  config.sinks.read(list, "--sink");
}

void show_progress_line(const std::vector<tracking::SinkStatus>& sinks) {
  if (::isatty(STDERR_FILENO) != 1) return;
  fmt::print(stderr, "\r{:.100}\x1b[K", describe_incomplete(sinks));
  std::fflush(stderr);
}

// A sink or another thread may still hang in a call: exits without waiting for it.
[[noreturn]] void exit_process(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

fs::path find_run_dir(const std::string& run, const std::string& runs_dir) {
  std::error_code error;
  if (fs::is_directory(fs::path(run) / "events", error)) return existing_run(run);
  return catalog::find_run_directory(runs_dir, run);
}

std::vector<int64_t> pids_of(const cxxopts::ParseResult& parsed) {
  return parsed.count("pid") ? parsed["pid"].as<std::vector<int64_t>>() : std::vector<int64_t>();
}

tracking::Forwarding forwarding_of(const cxxopts::ParseResult& parsed) {
  tracking::Forwarding forwarding;
  forwarding.may_move = parsed.count("logs-may-move") > 0;
  forwarding.to = parsed["forward-to"].as<std::string>();
  if (parsed.count("receive-from")) {
    forwarding.listener = std::make_shared<const FileDescriptor>(tracking::kForwardingListener);
    forwarding.from_nodes = parsed["receive-from"].as<std::vector<int>>();
    forwarding.num_logs = parsed["receive-logs"].as<int>();
  }
  if (!forwarding.sends() && !forwarding.receives()) return forwarding;
  forwarding.token = environment(tracking::kForwardingTokenVariable).value_or("");
  if (forwarding.token.empty())
    throw config_error(fmt::format("lockstep track: --forward-to and --receive-from need {}",
                                   tracking::kForwardingTokenVariable));
  return forwarding;
}

}  // namespace

int track_command(int argc, char** argv) {
  cxxopts::Options options("lockstep track");
  options.add_options()("h,help", "")("node-rank", "", cxxopts::value<int>()->default_value("0"))(
      "logs", "", cxxopts::value<int>()->default_value("1"))("attached", "")(
      "launcher", "", cxxopts::value<int64_t>()->default_value("0"))("logs-may-move", "")(
      "pid", "", cxxopts::value<std::vector<int64_t>>())(
      "forward-to", "", cxxopts::value<std::string>()->default_value(""))(
      "receive-from", "", cxxopts::value<std::vector<int>>())(
      "receive-logs", "", cxxopts::value<int>()->default_value("0"));
  options.add_options(kPositional)("run", "", cxxopts::value<std::string>());
  options.parse_positional({"run"});
  const auto parsed = parse_words(options, {argv, argv + argc});
  if (parsed.count("help")) {
    fmt::print("{}", kTrackHelp);
    return 0;
  }
  if (!parsed.count("run"))
    throw config_error("lockstep track: missing run directory; see lockstep track --help");
  if (parsed.count("attached")) lower_thread_priority();  // runs next to a training
  const auto run_dir = existing_run(parsed["run"].as<std::string>());
  const auto report =
      tracking::run_agent({.run_dir = run_dir,
                           .node_rank = parsed["node-rank"].as<int>(),
                           .expected_logs = parsed["logs"].as<int>(),
                           .pids = pids_of(parsed),
                           .parent_fd = parsed.count("attached") ? STDIN_FILENO : -1,
                           .launcher = parsed["launcher"].as<int64_t>(),
                           .config = tracking::read_tracking_config(run_dir),
                           .environment = environment_of_process(),
                           .forwarding = forwarding_of(parsed)});
  if (report.complete && !report.hangs) return 0;
  if (report.complete || report.handed_over) exit_process(0);
  fmt::print(stderr, "lockstep track: {}; retry with: lockstep sync {}\n",
             tracking::describe_incomplete(report.sinks), run_dir.string());
  exit_process(static_cast<int>(ErrorKind::Environment));
}

int sync_command(int argc, char** argv) {
  cxxopts::Options options("lockstep sync");
  options.add_options()("h,help", "")("sink", "", cxxopts::value<std::vector<std::string>>())(
      "dir", "", cxxopts::value<std::string>()->default_value(kRunsDir))(
      "timeout", "", cxxopts::value<std::string>()->default_value("10 min"));
  options.add_options(kPositional)("run", "", cxxopts::value<std::string>());
  options.parse_positional({"run"});
  const auto parsed = parse_words(options, {argv, argv + argc});
  if (parsed.count("help")) {
    fmt::print("{}", kSyncHelp);
    return 0;
  }
  if (!parsed.count("run"))
    throw config_error("lockstep sync: missing run id; 'lockstep runs list' lists the runs");
  tracking::SyncOptions sync{
      .run_dir = find_run_dir(parsed["run"].as<std::string>(), parsed["dir"].as<std::string>())};
  const auto sinks_given = parse_all_sinks(all_values(parsed, "sink"));
  sync.config = tracking::read_tracking_config(sync.run_dir, sinks_given);
  if (parsed.count("sink")) choose_sinks(sync.config, sinks_given);
  sync.ends = catalog::ends_to_sync(sync.run_dir);
  sync.environment = environment_of_process();
  sync.timeout = parse_timeout(parsed["timeout"].as<std::string>()).value;
  sync.on_progress = show_progress_line;
  const auto sinks = sync_run(sync);
  if (sinks.empty())
    throw config_error("lockstep sync: the run has no sinks; name one with --sink");
  const auto left = describe_incomplete(sinks);
  if (!left.empty()) {
    fmt::print(stderr, "lockstep: error: {}\n", left);
    exit_process(static_cast<int>(ErrorKind::Environment));
  }
  for (const auto& sink : sinks) fmt::print("{}: complete\n", sink.name);
  return 0;
}

}  // namespace lockstep::cli
