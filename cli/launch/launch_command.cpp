#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/launch/job_agreements.h"
#include "cli/launch/launch_arguments.h"
#include "cli/launch/launch_hosts.h"
#include "cli/launch/launch_logs.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/config/nearest_name.h"
#include "core/config/run_file.h"
#include "core/fatal_signal.h"
#include "core/printable.h"
#include "core/run_id.h"
#include "launch/environment/worker_env.h"
#include "launch/launcher.h"
#include "launch/protocol/token.h"
#include "launch/rendezvous/job_token.h"
#include "launch/warm/warm_template.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/agent/agent_lock.h"
#include "tracking/agent/agent_status.h"
#include "tracking/agent/run_entries.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/job_run.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/run_trash.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kTrackingTimeout = std::chrono::seconds(10);

// Where the run of this launch is stored. The trainer creates the run by writing run.json.
struct RunLocation {
  fs::path runs_dir;
  std::string run_id;
  bool has_mirror = false;  // checkpoint.mirror: its checkpoints can be in a bucket
  fs::path dir() const { return runs_dir / run_id; }
};

// The keys of T in a section of `root`; defaults if the section belongs to another program.
template <class T>
T section_of(const ConfigNode& root, const char* name) {
  T section;
  const auto* node = root.find(name);
  if (node && node->kind == ConfigNode::Kind::Map) read_known_fields(*node, name, section);
  return section;
}

bool has_mirror(const ConfigNode& root) {
  const auto* section = root.find("checkpoint");
  const bool is_map = section && section->kind == ConfigNode::Kind::Map;
  const auto* mirror = is_map ? section->find("mirror") : nullptr;
  return mirror && mirror->kind != ConfigNode::Kind::Null;
}

// Checks before the start that the batch size is valid for every permitted number of nodes.
// Assumes that all nodes have as many ranks as this one.
void verify_batch_of_all_sizes(const ConfigNode& root, const LaunchArguments& arguments) {
  const auto min = arguments.rendezvous.min_nodes, max = arguments.rendezvous.max_nodes;
  if (min == max) return;
  const auto sizes = section_of<BatchSizes>(root, "data");
  if (sizes.per_rank_batch_size || sizes.batch_remainder != BatchRemainder::Refuse) return;
  std::vector<int64_t> ranks;
  for (int64_t nodes = min; nodes <= max; ++nodes) ranks.push_back(nodes * arguments.num_workers);
  const auto problem = batch_size_problem(sizes.batch_size.value_or(kDefaultBatchSize), ranks,
                                          fmt::format("--nnodes {}:{}", min, max));
  if (!problem.empty()) throw config_error(problem);
}

// The script of an interpreter, else the program.
const std::string& named_by(const LaunchArguments& arguments) {
  const bool is_script = fs::path(*arguments.program).filename().string().starts_with("python") &&
                         !arguments.rest.empty() && !arguments.rest.front().starts_with('-');
  return is_script ? arguments.rest.front() : *arguments.program;
}

ConfigNode read_run_file_of(const LaunchArguments& arguments) {
  std::vector<std::string> overrides;
  for (size_t i = 1; i < arguments.rest.size(); ++i) {
    if (!arguments.trains() && arguments.rest[i].starts_with('-')) break;
    if (!arguments.program || arguments.rest[i].find('=') != std::string::npos)
      overrides.push_back(arguments.rest[i]);
  }
  return read_run_file(arguments.rest.front(), overrides,
                       [](const std::string& variable) { return environment(variable.c_str()); });
}

// "t.py" where a run file is expected, as with torchrun.
Error not_a_run_file(const Error& problem, const LaunchArguments& arguments) {
  const auto& file = arguments.rest.front();
  return config_error(fmt::format("{}; to start a program: lockstep launch -n {} -- {}{}",
                                  problem.what(), arguments.num_workers,
                                  file.ends_with(".py") ? "python " : "", printable(file, 200)));
}

// The run file of the launch; nullopt if a program has none: its first argument may be another YAML file.
std::optional<ConfigNode> find_run_file(const LaunchArguments& arguments) {
  if (arguments.rest.empty() && !arguments.program)
    throw config_error(
        "missing run file; usage: lockstep launch [OPTION...] CONFIG [a.b=value ...]");
  if (arguments.rest.empty() || (arguments.program && !is_run_file(arguments.rest.front())))
    return std::nullopt;
  try {
    auto root = read_run_file_of(arguments);
    section_of<RunSection>(root, "run");  // throws, too
    return root;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) throw;
    if (arguments.program) return std::nullopt;
    if (!is_run_file(arguments.rest.front())) throw not_a_run_file(error, arguments);
    throw;
  }
}

// Reads only the run location and the batch size from the run file; the trainer validates the rest.
RunLocation locate_run(const LaunchArguments& arguments) {
  RunSection run;
  RunLocation place;
  const auto root = find_run_file(arguments);
  if (root) {
    run = section_of<RunSection>(*root, "run");
    place.has_mirror = has_mirror(*root);
    if (!arguments.program && arguments.trains()) verify_batch_of_all_sizes(*root, arguments);
  }
  run.verify_dir();
  run.name_after(root ? arguments.rest.front() : named_by(arguments));
  place.runs_dir = run.dir;
  if (!arguments.trains()) {  // its logs do not belong to the run that it reads
    place.run_id = new_run_id(run.name);
    return place;
  }
  std::optional<std::string> given = arguments.resume ? arguments.resume : arguments.run_id;
  if (!given && !arguments.job.empty())
    given = tracking::run_of_job(place.runs_dir, run.name,
                                 {.id = arguments.job, .restarted = arguments.job_restarted});
  place.run_id = given ? *given : new_run_id(run.name);
  return place;
}

void verify_resumed(const RunLocation& place) {
  std::error_code error;
  if (place.has_mirror || fs::is_directory(place.dir(), error)) return;
  const auto ids = tracking::run_ids_in(place.runs_dir);
  const auto begun = std::ranges::find_if(
      ids, [&](const std::string& id) { return id.starts_with(place.run_id); });
  const auto nearest = begun != ids.end() ? *begun : nearest_name(place.run_id, ids);
  throw config_error(fmt::format("--resume {}: there is no such run in {}{}", place.run_id,
                                 place.runs_dir.string(),
                                 nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""));
}

// Throws Config if the path of --log-dir, or a parent of it, is something else than a directory.
void verify_log_dir(const fs::path& log_dir) {
  std::error_code error;
  for (auto path = log_dir; !path.empty(); path = path.parent_path()) {
    if (fs::is_directory(path, error)) return;
    if (fs::exists(path, error))
      throw config_error(fmt::format("--log-dir: {} is a file, not a directory; choose another",
                                     printable(path.string(), 400)));
    if (path == path.parent_path()) return;
  }
}

// The log directory of this node. Nodes may share a file system, so each has its own.
fs::path log_dir_of(const LaunchArguments& arguments, const fs::path& run_dir, int node_rank) {
  const auto node = fmt::format("node_{}", node_rank);
  const auto logs = arguments.log_dir ? fs::path(*arguments.log_dir) : run_dir / "logs";
  return arguments.rendezvous.max_nodes == 1 ? logs : logs / node;
}

launch::LaunchOptions make_options(const LaunchArguments& arguments, const RunLocation& place) {
  launch::LaunchOptions options;
  options.program = arguments.program ? *arguments.program : trainer_program();
  options.passes_master_socket = !arguments.is_command;
  options.arguments = arguments.rest;
  if (arguments.resume)
    options.arguments.insert(options.arguments.end(), {"--resume", *arguments.resume});
  if (arguments.predict)
    options.arguments.insert(options.arguments.end(), {"--predict", *arguments.predict});
  if (arguments.evaluates) options.arguments.emplace_back("--evaluate");
  if (arguments.generate)
    options.arguments.insert(options.arguments.end(), {"--generate", *arguments.generate});
  options.num_workers = arguments.num_workers;
  options.master_addr = arguments.master_addr;
  options.master_port = arguments.master_port;
  options.rendezvous = arguments.rendezvous;
  if (options.rendezvous.max_nodes > 1)
    options.rendezvous.agreements = job_agreements(arguments, options.program);
  options.max_restarts = arguments.max_restarts;
  options.restart_window = arguments.restart_window;
  options.restart_delay = arguments.restart_delay;
  options.continues_on_loss = arguments.continues_on_loss;
  options.num_spares = arguments.num_spares;
  options.rank_restarts = arguments.rank_restarts;
  options.monitor_interval = arguments.monitor_interval;
  options.tee = arguments.tee;
  options.stop_grace = arguments.stop_grace;
  options.role = arguments.role;
  options.run_id = place.run_id;
  options.runs_dir = place.runs_dir;
  return options;
}

// The outcome as seen by the launcher, which observed the exit of every process of the job.
tracking::EndFact end_of(const launch::LaunchReport& report) {
  tracking::EndFact fact{.by = tracking::Witness::Launcher,
                         .end = {.state = RunState::Failed,
                                 .exit_code = report.exit_code(),
                                 .reason = report.summary()},
                         .time = tracking::unix_now()};
  auto& end = fact.end;
  if (const auto* cause = report.cause()) {
    if (!report.all_failed_alike()) end.rank = cause->rank;
    end.signal = cause->fatal_signal();
    if (end.signal && !is_crash(*end.signal)) end.state = RunState::Killed;
    if (const auto detail = cause->detail(); cause->error && cause->hang.empty() && !detail.empty())
      end.reason = detail.front();
  } else if (const auto signal =
                 report.interrupted_by ? report.interrupted_by : report.preempted_by()) {
    end.state = RunState::Killed;
    end.signal = signal;
    // Workers that handled the signal have recorded their own outcome. One that exits slightly
    // later than those of another node is stopped after it has reported.
    fact.is_consequence =
        !report.interrupted_by || std::ranges::none_of(report.workers, [](const auto& worker) {
          return worker.failed() && !worker.preempted_by();
        });
  }
  return fact;
}

// No directory of the last attempt is kept for an input error that the console has shown in full, nor for
// a start that created no run.
bool is_discardable(const launch::LaunchReport& report, const LaunchArguments& arguments,
                    const launch::LaunchOptions& options) {
  if (!report.cause() || !options.tee.shows_everything(options.num_workers)) return false;
  // Other nodes do not know whether a run exists, and a custom program need not create one.
  const bool knows_run = report.node_rank == 0 && !arguments.program;
  return knows_run || report.exit_code() == static_cast<int>(ErrorKind::Config);
}

// Whether the ranks rejected their input before they reopened an existing run, whose outcome is then
// still that of its last attempt.
bool was_left_alone(const launch::LaunchReport& report, const fs::path& run_dir, double start) {
  if (report.exit_code() != static_cast<int>(ErrorKind::Config)) return false;
  std::error_code error;
  const fs::directory_iterator logs(run_dir / "events", error);
  return !error && std::ranges::none_of(logs, [&](const fs::directory_entry& log) {
    return tracking::changed_at(log.path()) >= start;
  });
}

// Waits for the tracking agent to forward the outcome, recorded by the launcher, to the sinks.
void await_tracking(const fs::path& run_dir, int node_rank) {
  tracking::wait_for_agent(run_dir, node_rank, kTrackingTimeout);
  const auto left = tracking::describe_incomplete(tracking::read_sink_status(run_dir, node_rank));
  if (!left.empty())
    fmt::print(stderr, "lockstep: tracking: {}; complete it with: lockstep sync {}\n", left,
               run_dir.string());
}

// Every node reports the cause; the coordinator prints the full report.
void print_report(const launch::LaunchReport& report, const LaunchLogs& logs) {
  const bool is_brief = !report.serves && !report.succeeded();
  auto text = is_brief ? report.summary() + "\n" : report.text();
  if (!text.empty()) text.insert(0, "lockstep: ");
  if (const auto* cause = report.cause(); cause && logs.is_kept())
    text += fmt::format("logs: {}{}\n", cause->host.empty() ? "" : cause->host + ": ",
                        cause->log.string());
  if (!report.is_console_complete && logs.is_kept())
    text += fmt::format("lockstep: this console lacks output of the ranks, which is in {}\n",
                        logs.last().string());
  std::fputs(text.c_str(), stderr);
}

// Nodes of a scheduler's job share a token only if the user gives one.
bool needs_job_token(const LaunchArguments& arguments) {
  return !arguments.job.empty() && arguments.rendezvous.max_nodes > 1 &&
         arguments.rendezvous.token.empty();
}

// Schedulers may send another SIGTERM while the launcher reports (srun --kill-on-bad-exit), which
// must not change its exit code. run_workers() still receives the signal, and workers start with
// none blocked.
void block_sigterm() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

// A console that is closed, or a limit on file sizes, must not end the launcher before it has recorded the
// outcome. Workers start with the default actions.
void ignore_failed_writes() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

// If the launcher fails, e.g. since the coordinator is lost, the output of its ranks is kept.
launch::LaunchReport run_with_logs(const launch::LaunchOptions& options, LaunchLogs& logs,
                                   const launch::LogDirectory& claim_logs) {
  try {
    return run_workers(options, claim_logs);
  } catch (const std::exception&) {
    if (logs.have_content()) logs.keep();
    throw;
  }
}

// CUDA cannot be used after a fork.
std::optional<launch::WarmTemplate> warm_template(const LaunchArguments& arguments,
                                                  const launch::LaunchOptions& options) {
  if (arguments.program) return std::nullopt;
  const auto own = environment(launch::kTemplateVariable).value_or("");
  if (auto inherited = launch::WarmTemplate::inherited(own)) return inherited;
  if (options.num_workers + options.num_spares == 1 || launch::num_usable_gpus() > 0)
    return std::nullopt;
  const auto label = options.runs_dir / options.run_id;
  return launch::WarmTemplate(options.program, options.num_workers, label.string());
}

int run_launch(const LaunchArguments& arguments) {
  launch::open_standard_streams();
  ignore_failed_writes();
  const auto place = locate_run(arguments);
  if (arguments.resume && arguments.trains()) verify_resumed(place);
  if (arguments.hostfile)
    return launch_on_hosts(arguments, arguments.resume.value_or(place.run_id));
  if (arguments.log_dir) verify_log_dir(*arguments.log_dir);
  auto options = make_options(arguments, place);
  // With several nodes, this one may join a running job; its ranks check then.
  if (options.rendezvous.max_nodes == 1 && tracking::is_written_on(place.dir(), 0))
    throw environment_error(fmt::format(
        "run {} is being written by another job ({}): wait until it ends, or choose another run id",
        place.run_id, place.dir().string()));
  std::optional<launch::JobToken> token;
  if (needs_job_token(arguments)) {
    token.emplace(place.runs_dir, arguments.job, options.rendezvous.serves.value_or(false),
                  options.rendezvous.join_timeout);
    options.rendezvous.token = token->text();
  }
  LaunchLogs logs;
  auto warm = warm_template(arguments, options);
  if (warm) options.warm = &*warm;
  block_sigterm();
  const auto start = tracking::unix_now();
  const auto report = run_with_logs(options, logs, [&](const std::string& run_id, int node_rank) {
    return logs.claim(log_dir_of(arguments, place.runs_dir / run_id, node_rank));
  });

  const auto run_dir = place.runs_dir / report.run_id;
  std::error_code error;
  const bool is_run = !report.run_id.empty() && fs::exists(run_dir / "run.json", error);
  const bool has_read_only = !arguments.trains() && report.succeeded();
  const bool discard = !is_run && report.is_console_complete &&
                       (has_read_only || is_discardable(report, arguments, options));
  if (!discard) logs.keep();
  print_report(report, logs);
  // Our ranks have exited, so if a log is being written, the run belongs to another job.
  if (is_run && !report.succeeded() && !was_left_alone(report, run_dir, start) &&
      !tracking::is_written_on(run_dir, report.node_rank)) {
    if (report.node_rank == 0 || report.took_over) record_end(run_dir, end_of(report));
    await_tracking(run_dir, report.node_rank);
  }
  return report.exit_code();
}

}  // namespace

int launch_command(int argc, char** argv) {
  const auto arguments = parse_launch_arguments(argc, argv);
  if (arguments.wants_help) {
    fmt::print("{}", arguments.help);
    return 0;
  }
  if (arguments.new_token) {
    launch::make_token_file(*arguments.new_token);
    fmt::print("{}: created a job token; copy this file to every node of the job\n",
               *arguments.new_token);
    return 0;
  }
  return run_launch(arguments);
}

}  // namespace lockstep::cli
