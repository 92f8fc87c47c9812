#include "tracking/agent/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "core/fatal_signal.h"
#include "lockstep/error.h"
#include "tracking/agent/agent_lock.h"
#include "tracking/agent/agent_status.h"
#include "tracking/agent/code_recorder.h"
#include "tracking/agent/log_forwarder.h"
#include "tracking/agent/log_receiver.h"
#include "tracking/agent/node_recorder.h"
#include "tracking/agent/node_watch.h"
#include "tracking/agent/run_entries.h"
#include "tracking/alerts/alert_rules.h"
#include "tracking/http/path_watch.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/run_directory.h"
#include "tracking/system/system_sampler.h"

namespace lockstep::tracking {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kAgentTick = std::chrono::milliseconds(200);
constexpr auto kStatusInterval = std::chrono::seconds(20);
constexpr int kFirstDeliveryTickMs = 10, kMaxDeliveryTickMs = 200;
constexpr auto kLogsTimeout = std::chrono::seconds(30);
// The launcher first stops the other ranks; without one, the ranks exit by themselves.
constexpr auto kEndReportTimeout = std::chrono::seconds(10);
// While the launcher is alive: other ranks may continue without a lost one (launch --on-rank-loss
// continue).
constexpr auto kLauncherReportTimeout = std::chrono::seconds(40);
constexpr double kMaxClockSkew_s = 5;
constexpr auto kHeartbeatEvery = std::chrono::seconds(10);

// The directory in which `lockstep launch` stores the output of this node's ranks.
std::filesystem::path launcher_logs(const AgentOptions& options) {
  const auto logs = logs_path(options.run_dir);
  const auto of_node = logs / fmt::format("node_{}", options.node_rank);
  std::error_code ignored;
  return std::filesystem::exists(of_node, ignored) ? of_node : logs;
}

FileDescriptor open_process(int64_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool is_alive(const FileDescriptor& process) {
  pollfd exited{.fd = process.get(), .events = POLLIN, .revents = 0};
  return process.is_open() && ::poll(&exited, 1, 0) == 0;
}

bool is_unchanged(const SinkStatus& now, const SinkStatus& before) {
  return now.name == before.name && now.complete == before.complete &&
         now.gave_up == before.gave_up && now.problem == before.problem;
}

class Agent {
 public:
  explicit Agent(const AgentOptions& options)
      : options_(options),
        parent_alive_(options.parent_fd >= 0),
        launcher_(options.launcher > 0 ? open_process(options.launcher) : FileDescriptor()),
        recorder_(options.run_dir, options.node_rank),
        log_watch_(node_log_path(options.run_dir, options.node_rank)),
        watch_(options.run_dir, options.node_rank, options.forwarding.may_move),
        consoles_(launcher_logs(options), recorder_.console_lines()),
        sampler_({.disk = options.run_dir, .processes = [this] { return process_ids(); }}),
        rules_(options.config.alerts),
        next_sample_(started_),
        next_heartbeat_(started_ + kHeartbeatEvery) {
    for (const auto pid : options.pids) processes_.push_back(open_process(pid));
    const auto alerts = read_alert_state(options.run_dir, options.node_rank);
    rules_.restore_causes(alerts.causes, start_time_ - alerts.time);
    if (options.forwarding.receives())
      receiver_ = std::make_unique<LogReceiver>(options.run_dir, options.forwarding);
    if (options.forwarding.sends())
      forwarder_ =
          std::make_unique<LogForwarder>(options.run_dir, options.node_rank, options.forwarding);
    for (const auto& part : options.config.sinks.parts())
      if (part.name() != kConsoleSink && !forwarder_)
        sinks_.push_back(std::make_unique<SinkThread>(part, options.environment));
  }

  AgentReport run() {
    std::optional<EndFacts> facts;
    while (!facts) {
      tick();
      if (must_hand_over()) return {.complete = false, .handed_over = true, .sinks = statuses()};
      if (!log_watch_.problem().empty()) return {.complete = false, .sinks = statuses()};
      if (is_over())
        facts = wait_for_end();
      else
        wait();
    }
    record_sample();
    while (watch_consoles(true)) {
    }
    recorder_.close();
    feed_entries();
    if (forwarder_) forwarder_->finish();
    return deliver(*facts);
  }

  bool end_code_recorder() { return code_.end(); }

 private:
  void tick() {
    watch_ranks();
    watch_consoles(false);
    const auto now = Clock::now();
    if (feeds_ || has_all_logs() || now - started_ > kLogsTimeout) feed_entries();
    if (now >= next_sample_) {
      record_sample();
      next_sample_ = now + options_.config.system_every.value;
    }
    if (now >= next_heartbeat_) {
      recorder_.heartbeat();
      next_heartbeat_ = now + kHeartbeatEvery;
    }
    write_status(false);
  }

  // Waits until the next tick or until the parent exits.
  void wait() {
    pollfd parent{.fd = parent_alive_ ? options_.parent_fd : -1, .events = POLLIN};
    const auto count = ::poll(&parent, 1, static_cast<int>(kAgentTick.count()));
    if (count > 0) parent_alive_ = false;
  }

  bool has_all_logs() const {
    if (static_cast<int>(watch_.logs().size()) < options_.expected_logs) return false;
    if (!receiver_) return true;
    const auto& nodes = options_.forwarding.from_nodes;
    const bool has_node_logs = std::ranges::all_of(nodes, [this](int node) {
      return std::filesystem::exists(node_log_path(options_.run_dir, node));
    });
    if (!has_node_logs) return false;
    const auto received = logs_of_nodes(options_.run_dir, std::set(nodes.begin(), nodes.end()));
    return static_cast<int>(received.size()) >= options_.forwarding.num_logs;
  }

  // Logs of other nodes may appear later, also on a file system that the nodes share.
  void feed_entries() {
    if (watch_.logs().empty() || (feeds_ && !has_unplanned_logs())) return;
    feeds_ = true;
    plan();
  }

  bool has_unplanned_logs() const {
    const auto& dir = options_.run_dir;
    if (!receiver_ && !has_logs_of_other_nodes(options_.config)) return false;
    return rank_logs(dir).size() + node_logs(dir).size() > num_planned_logs_ &&
           num_identified_logs() > num_planned_logs_;
  }

  size_t num_identified_logs() const {
    return logs_of_nodes(options_.run_dir, std::nullopt).size() +
           node_logs(options_.run_dir).size();
  }

  void plan() {
    num_planned_logs_ = num_identified_logs();
    std::set nodes = {options_.node_rank};
    nodes.insert(options_.forwarding.from_nodes.begin(), options_.forwarding.from_nodes.end());
    entries_ = plan_entries(options_.run_dir, options_.config, nodes);
    for (auto& sink : sinks_)
      for (const auto& entry : entries_) sink->add(entry);
  }

  bool is_over() const {
    if (parent_alive_ || (receiver_ && !receiver_->is_over())) return false;
    if (!watch_.has_logs()) return Clock::now() - started_ > kAgentTick || options_.parent_fd >= 0;
    return watch_.all_closed();
  }

  std::vector<int64_t> process_ids() const {
    return options_.pids.empty() ? watch_.process_ids() : options_.pids;
  }

  void record_sample() {
    const auto values = sampler_.sample();
    recorder_.sample(values);
    std::vector<Metric> metrics;
    for (const auto& [name, value] : values) metrics.push_back({name, value});
    const auto first = watch_.logs().begin();
    const int rank = first != watch_.logs().end() ? first->second->rank() : 0;
    raise(rules_.scalars({.time = unix_now(), .values = metrics}, rank));
  }

  void raise(const std::vector<Alert>& alerts) {
    for (const auto& alert : alerts) recorder_.alert(alert);
    has_raised_ |= !alerts.empty();
  }

  // Checks what the ranks logged since the last call, and which are silent or gone.
  void watch_ranks() {
    watch_.poll([this](const LoggedRow& row, const WatchedLog& log) {
      // By their times, only what was there before: the clock may be set back since.
      if (!log.was_read && row.time < start_time_ - kMaxClockSkew_s) return;
      std::vector<Metric> metrics;
      for (const auto& [key, value] : row.values) metrics.push_back({log.tail.keys()[key], value});
      raise(rules_.scalars(
          {.step = row.step, .time = row.time, .epoch = row.epoch, .values = metrics}, log.rank()));
    });
    std::vector<RankState> states;
    for (const auto* log : watch_.own_logs())
      states.push_back(
          {.rank = log->rank(),
           .alive = log->has_writer,
           .ended = log->end.has_value(),
           .note = sampler_.oom_kills() > 0 ? "the kernel OOM killer was active" : ""});
    raise(rules_.tick(unix_now(), states));
  }

  // Returns whether more output is available already.
  bool watch_consoles(bool is_final) {
    if (!options_.config.console || watch_.logs().empty()) return false;
    const auto& info = watch_.logs().begin()->second->tail.identity();
    if (!info) return false;
    return consoles_.poll(info->rank - info->local_rank, unix_now(), is_final,
                          [this](const ConsoleLine& line) { recorder_.console(line); });
  }

  // True when the parent is gone and restarted ranks have started another agent.
  bool must_hand_over() const {
    return !parent_alive_ && is_agent_waiting(options_.run_dir, options_.node_rank);
  }

  // Waits for reports of how the run ended, from the launcher, which knows how each rank exited, or
  // from the ranks. nullopt: ranks were restarted meanwhile, and the run continues.
  std::optional<EndFacts> wait_for_end() {
    watch_ranks();
    auto facts = read_end_facts(options_.run_dir);
    if (watch_.all_finished()) return facts;
    const auto begin = Clock::now();
    while (true) {
      if (must_hand_over()) return std::nullopt;
      const auto timeout = is_alive(launcher_) ? kLauncherReportTimeout : kEndReportTimeout;
      const bool is_late = forwarder_ || Clock::now() - begin >= timeout;
      // Checked first: what they reported is then on disk.
      const bool all_exited = !is_alive(launcher_) && std::ranges::none_of(processes_, is_alive);
      facts = read_end_facts(options_.run_dir);
      if (std::ranges::count(facts, Witness::Launcher, &EndFact::by) > 0) return facts;
      if (all_exited || is_late) {
        watch_ranks();
        if (!watch_.all_closed()) return std::nullopt;
        record_silent_rank(facts);
        const auto* fact = decisive_fact(facts);
        // Otherwise another node knows more.
        if (is_late || !fact || !fact->is_consequence) return facts;
      }
      ::poll(nullptr, 0, static_cast<int>(kAgentTick.count()));
    }
  }

  // The first rank of this node that exited without reporting. A rank that does not log reports
  // nothing on success either, so it counts only if another rank reports that it lost a peer.
  std::optional<int> silent_rank(const EndFacts& facts) const {
    if (const auto* log = watch_.first_silent()) return log->rank();
    const auto* fact = decisive_fact(facts);
    if (!fact || !fact->is_consequence || watch_.logs().empty()) return std::nullopt;
    std::set<int> reported;
    for (const auto& other : facts)
      if (other.by == Witness::Trainer) reported.insert(other.number);
    for (const auto& [path, log] : watch_.logs()) reported.insert(log->rank());
    const auto& info = watch_.logs().begin()->second->tail.identity();
    const int first = info ? info->rank - info->local_rank : 0;
    for (int rank = first; rank < first + static_cast<int>(processes_.size()); ++rank)
      if (!reported.contains(rank)) return rank;
    return std::nullopt;
  }

  void record_silent_rank(EndFacts& facts) {
    const auto rank = silent_rank(facts);
    if (!rank) return;
    const bool out_of_memory = sampler_.oom_kills() > 0;
    facts.push_back(
        {.by = Witness::Agent,
         .number = options_.node_rank,
         .end = {.state = RunState::Killed,
                 .exit_code = static_cast<int>(kind_of_signal(SIGKILL)),
                 .signal = SIGKILL,
                 .rank = rank,
                 .reason = out_of_memory
                               ? "killed by the kernel: out of memory"
                               : "the process exited without reporting (SIGKILL or crash)"},
         .time = unix_now()});
    try {
      record_end(options_.run_dir, facts.back());
    } catch (const Error&) {
      // Disk full: readers see that the log has no end and no writer.
    }
  }

  AgentReport deliver(const EndFacts& facts) {
    for (auto& sink : sinks_)
      for (const auto& entry : entries_) sink->set_end(entry.id, end_of(entry, facts));
    const auto latest = Clock::now() + options_.config.upload_timeout.value;
    AgentReport report;
    for (int tick_ms = kFirstDeliveryTickMs;; tick_ms = std::min(tick_ms * 2, kMaxDeliveryTickMs)) {
      report.sinks = statuses();
      report.complete = std::ranges::all_of(report.sinks, &SinkStatus::complete);
      if (must_hand_over()) return {.complete = false, .handed_over = true, .sinks = report.sinks};
      const bool at_rest = std::ranges::all_of(
          report.sinks, [](const SinkStatus& sink) { return sink.complete || sink.gave_up; });
      if (at_rest || !log_watch_.problem().empty() || Clock::now() >= latest) break;
      write_status(false);
      ::poll(nullptr, 0, tick_ms);
    }
    write_status(true);
    if (!report.complete)
      for (auto& sink : sinks_) static_cast<void>(sink.release());  // may hang: see the header
    return report;
  }

  RunEnd end_of(const EntryPlan& plan, const EndFacts& facts) const {
    auto log = watch_.logs().find(plan.log);
    if (log == watch_.logs().end()) log = watch_.logs().begin();  // another node's
    return resolve(facts, log == watch_.logs().end() ? std::nullopt : log->second->end);
  }

  std::vector<SinkStatus> statuses() const {
    std::vector<SinkStatus> statuses;
    for (const auto& sink : sinks_) statuses.push_back(sink->status());
    if (forwarder_) statuses.push_back(forwarder_->status());
    return statuses;
  }

  // Writes changes immediately, and the backlog of the sinks periodically.
  void write_status(bool always) {
    const auto now = Clock::now();
    const auto sinks = statuses();
    const auto causes = rules_.causes();
    if (sinks.empty() && causes.empty()) return;
    if (!always && !has_raised_ && now < next_status_ &&
        std::ranges::equal(sinks, written_status_, is_unchanged))
      return;
    next_status_ = now + kStatusInterval;
    written_status_ = sinks;
    has_raised_ = false;
    try {
      write_agent_status(options_.run_dir, options_.node_rank, sinks, {unix_now(), causes});
    } catch (const Error&) {
      // Disk full: a later sync determines what the sinks lack.
    }
  }

  const AgentOptions options_;
  const Clock::time_point started_ = Clock::now();
  bool parent_alive_;
  const FileDescriptor launcher_;          // pidfd; closed if there is no launcher
  std::vector<FileDescriptor> processes_;  // of the node's ranks, in order
  NodeRecorder recorder_;
  const PathWatch log_watch_;  // a run whose directory was deleted or moved needs no agent
  NodeWatch watch_;
  ConsoleWatch consoles_;
  SystemSampler sampler_;
  AlertRules rules_;
  const double start_time_ = unix_now();  // earlier rows raise no alerts
  Clock::time_point next_sample_, next_heartbeat_, next_status_;
  std::vector<SinkStatus> written_status_;
  bool has_raised_ = false;  // since the status was last written
  bool feeds_ = false;
  size_t num_planned_logs_ = 0;
  std::vector<EntryPlan> entries_;
  std::vector<std::unique_ptr<SinkThread>> sinks_;
  std::unique_ptr<LogReceiver> receiver_;
  std::unique_ptr<LogForwarder> forwarder_;
  CodeRecorder code_{options_};
};

}  // namespace

AgentReport run_agent(const AgentOptions& options) {
  const auto lock = acquire_agent_lock(options.run_dir, options.node_rank, options.parent_fd);
  if (!lock) return {};
  Agent agent(options);
  auto report = agent.run();
  report.hangs = !agent.end_code_recorder();
  return report;
}

}  // namespace lockstep::tracking
