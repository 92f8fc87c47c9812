#include "lockstep/tracker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <set>
#include <vector>

#include "core/system/durable_file.h"
#include "tracking/agent/agent_process.h"
#include "tracking/agent/agent_status.h"
#include "tracking/http/path_watch.h"
#include "tracking/log/clip_type.h"
#include "tracking/log/event_log_writer.h"
#include "tracking/log/log_tail.h"
#include "tracking/log/unix_time.h"
#include "tracking/open_tracker.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/run_directory.h"

namespace lockstep {
namespace {

constexpr auto kQuietWait = std::chrono::milliseconds(1000);
constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr auto kLookAtSinksEvery = std::chrono::seconds(5);

}  // namespace

struct Tracker::State {
  // The error boundary: errors in tracking do not reach the training.
  template <class Call>
  void contain_errors(const std::string& what, const Call& call) noexcept {
    try {
      try {
        call();
      } catch (const std::exception& error) {
        if (problem.empty()) problem = fmt::format("{}: {}", what, error.what());
      }
    } catch (...) {
      problem =
          "tracking failed";  // the message could not be formatted; short enough for no allocation
    }
  }

  template <class Call>
  void record(const Call& call) noexcept {
    check_health();
    if (log) contain_errors("event log", [&] { call(*log); });
    if (log)
      if (const auto notice = log->take_notice()) show([&](Sink& sink) { sink.text(*notice); });
  }

  void check_health() noexcept;
  void check_log() noexcept;
  void check_sinks() noexcept;

  template <class Call>
  void show(const Call& call) noexcept {
    if (!console) return;
    bool done = false;
    contain_errors("console", [&] {
      call(*console);
      done = true;
    });
    if (!done) console.reset();
  }

  ScalarRow without_known(const ScalarRow& row);

  TrackingReport report() const {
    if (!log || log->num_dropped() == 0) return {.problem = problem, .lost = lost};
    return {
        .num_dropped = log->num_dropped(),
        .problem = fmt::format("{} record{} not written to the event log: {}", log->num_dropped(),
                               log->num_dropped() == 1 ? " was" : "s were", log->failure()),
        .lost = lost};
  }

  void wait_for_agent();

  std::filesystem::path run_dir;
  int node_rank = 0;
  std::chrono::milliseconds finish_timeout{0};
  std::optional<tracking::EventLogWriter> log;  // none: this process does not log
  std::shared_ptr<Sink> console;                // none: it shows no progress, or that failed
  std::unique_ptr<tracking::AgentProcess>
      agent;  // none: another process started it, or there is none
  std::string problem;

  std::optional<tracking::PathWatch> watch;  // of the log, or else of the run directory
  std::chrono::steady_clock::time_point looked_at;
  std::string lost;  // see TrackingReport
  std::chrono::steady_clock::time_point looked_at_sinks = std::chrono::steady_clock::now();
  std::set<std::string> stopped_sinks;  // those that a warning has named

  std::filesystem::path log_path;
  std::optional<int64_t> resume_step;
  // Metrics of resume_step that the log had when this process started; read on first use.
  std::optional<std::set<std::string, std::less<>>> known;
  std::vector<Metric> unknown;  // reused
};

// A few system calls, once a second. Starting the agent would recreate a directory that was
// deleted.
void Tracker::State::check_health() noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at < kLookEvery) return;
  looked_at = now;
  check_log();
  if (!agent || !lost.empty()) return;
  contain_errors("tracking agent", [&] { agent->keep_alive(); });
  if (now - looked_at_sinks < kLookAtSinksEvery) return;
  looked_at_sinks = now;
  check_sinks();
}

// A sink that stopped, e.g. because its token is missing, is named now, not only when the run ends.
void Tracker::State::check_sinks() noexcept {
  contain_errors("sinks", [&] {
    for (const auto& sink : tracking::read_sink_status(run_dir, node_rank)) {
      if (!sink.gave_up || !stopped_sinks.insert(sink.name).second) continue;
      const TextLine text{.time = tracking::unix_now(),
                          .level = TextLevel::Warning,
                          .line = fmt::format("sink {} stopped: {}; training continues, and "
                                              "`lockstep sync {}` sends what it lacks",
                                              sink.name, sink.problem, run_dir.string())};
      if (log) log->text(text);
      show([&](Sink& shown) { shown.text(text); });
    }
  });
}

// Writing to a deleted file does not fail.
void Tracker::State::check_log() noexcept {
  if (!lost.empty() || !watch) return;
  contain_errors("event log", [&] {
    const auto found = watch->problem();
    if (found.empty()) return;
    lost = fmt::format("the {} of this run ({}) {} during the run", log ? "event log" : "directory",
                       (log ? log_path : run_dir).string(), found);
    show([&](Sink& sink) {
      sink.text({.time = tracking::unix_now(),
                 .level = TextLevel::Error,
                 .line = lost + "; training continues, and checkpoints are saved in " +
                         tracking::checkpoints_path(run_dir).string()});
    });
  });
}

Tracker::Tracker() = default;
Tracker::~Tracker() = default;
Tracker::Tracker(Tracker&&) noexcept = default;
Tracker& Tracker::operator=(Tracker&&) noexcept = default;
Tracker::Tracker(std::unique_ptr<State> state) : state_(std::move(state)) {}

bool Tracker::is_logging() const { return state_ && state_->log; }

namespace {

std::unique_ptr<tracking::AgentProcess> start_agent(const TrackerOptions& options,
                                                    const tracking::TrackingConfig& config,
                                                    const tracking::Forwarding& forwarding) {
  const auto& process = options.process;
  if (!config.agent || options.agent_program.empty() || !tracking::starts_agent(process.local_rank))
    return nullptr;
  return std::make_unique<tracking::AgentProcess>(tracking::AgentCommand{
      .program = options.agent_program,
      .run_dir = options.run_dir,
      .node_rank = process.node_rank,
      .expected_logs =
          count_logging(config.ranks, process.rank - process.local_rank, options.local_world_size),
      .pids = options.local_pids,
      .launcher = options.launcher,
      .forwarding = forwarding});
}

// A warning, if sinks are set that are not fed; else empty.
std::string describe_unfed(const TrackerOptions& options, const tracking::TrackingConfig& config) {
  if (!config.agent || !options.agent_program.empty() || !tracking::is_main(options.process.rank))
    return "";
  std::vector<std::string> names;
  for (const auto& part : config.sinks.parts())
    if (part.name() != tracking::kConsoleSink) names.push_back(part.name());
  if (names.empty()) return "";
  return fmt::format(
      "tracking.sinks: not fed during the run, because the program 'lockstep' was not found: {}; "
      "feed them afterwards with: lockstep sync {}",
      fmt::join(names, ", "), options.run_dir.string());
}

std::shared_ptr<Sink> start_console(const ConsoleOptions& console,
                                    const tracking::TrackingConfig& config, int rank) {
  const auto* part = config.sinks.find(tracking::kConsoleSink);
  if (!part || !shows_progress(config.ranks, rank)) return nullptr;
  return part->build({.console = console});
}

}  // namespace

Tracker open_tracker(const TrackerOptions& options) {
  tracking::TrackingConfig config;
  if (!options.tracking.empty())
    read_fields(parse_config(options.tracking, "TrackerOptions::tracking"), "tracking", config);
  return tracking::open_tracker(options, config, {});
}

Tracker tracking::open_tracker(const TrackerOptions& options, const TrackingConfig& config,
                               const tracking::Forwarding& forwarding) {
  sink_registry().verify();
  auto info =
      decide(config.ranks, options.process, {.run_name = config.run_name, .group = config.group});
  auto state = std::make_unique<Tracker::State>();
  state->run_dir = options.run_dir;
  state->node_rank = options.process.node_rank;
  state->finish_timeout = config.finish_timeout.value;
  if (info) {
    if (info->created == 0) info->created = tracking::unix_now();
    make_directories(tracking::event_log_path(options.run_dir, info->rank).parent_path());
    state->log_path = tracking::event_log_path(options.run_dir, info->rank);
    state->log.emplace(state->log_path);
    state->resume_step = options.resume_step;
    state->record([&](tracking::EventLogWriter& log) {
      const bool takes_back = options.resume_step && log.continues();
      log.identity(*info);
      log.config(options.run_config.is_null() ? Json::object() : options.run_config);
      if (takes_back) log.rewind(*options.resume_step);
    });
    state->console = start_console(options.console, config, info->rank);
    state->show([&](Sink& sink) { sink.run_started(*info, options.run_config); });
  }
  state->contain_errors("tracking agent",
                        [&] { state->agent = start_agent(options, config, forwarding); });
  if (!state->log && !state->agent) return {};
  state->watch.emplace(state->log ? state->log_path : state->run_dir);
  Tracker tracker(std::move(state));
  if (const auto unfed = describe_unfed(options, config); !unfed.empty())
    tracker.text(TextLevel::Warning, unfed);
  return tracker;
}

// Values of the very step of a resume, such as an evaluation that a signal prevented, may already
// be in the log, from a process that was killed before its next checkpoint. Each value is logged
// once.
ScalarRow Tracker::State::without_known(const ScalarRow& row) {
  if (row.step != resume_step) return row;
  if (!known) {
    known.emplace();
    tracking::LogTail tail(log_path);
    while (const auto record = tail.next())
      if (const auto* before = std::get_if<tracking::LoggedRow>(&*record);
          before && before->step == row.step)
        for (const auto& [key, value] : before->values) known->insert(tail.keys()[key]);
  }
  unknown.clear();
  for (const auto& metric : row.values)
    if (!known->contains(metric.name)) unknown.push_back(metric);
  return {.step = row.step, .time = row.time, .epoch = row.epoch, .values = unknown};
}

void Tracker::log(int64_t step, double epoch, std::span<const Metric> metrics) noexcept {
  if (!state_) return;
  const ScalarRow row{
      .step = step, .time = tracking::unix_now(), .epoch = epoch, .values = metrics};
  state_->record([&](tracking::EventLogWriter& log) { log.scalars(state_->without_known(row)); });
  state_->show([&](Sink& sink) { sink.scalars(row); });
}

void Tracker::text(TextLevel level, std::string_view line) noexcept {
  if (!state_) return;
  state_->contain_errors("text", [&] {
    const TextLine text{.time = tracking::unix_now(), .level = level, .line = std::string(line)};
    state_->record([&](tracking::EventLogWriter& log) { log.text(text); });
    state_->show([&](Sink& sink) { sink.text(text); });
  });
}

void Tracker::summary(std::string_view name, double value) noexcept {
  if (!state_) return;
  state_->record([&](tracking::EventLogWriter& log) { log.summary({{std::string(name), value}}); });
}

void Tracker::histogram(Histogram histogram) noexcept {
  histogram.at.time = tracking::unix_now();
  if (state_) state_->record([&](tracking::EventLogWriter& log) { log.histogram(histogram); });
}

void Tracker::image(Image image) noexcept {
  image.at.time = tracking::unix_now();
  if (state_) state_->record([&](tracking::EventLogWriter& log) { log.image(image); });
}

void Tracker::clip(Clip clip) noexcept {
  clip.at.time = tracking::unix_now();
  if (state_ && tracking::find_clip_type(clip.type))
    state_->record([&](tracking::EventLogWriter& log) { log.clip(clip); });
}

void Tracker::table(Table table) noexcept {
  table.at.time = tracking::unix_now();
  if (state_) state_->record([&](tracking::EventLogWriter& log) { log.table(table); });
}

void Tracker::alert(Alert alert) noexcept {
  alert.time = tracking::unix_now();
  if (!state_) return;
  state_->record([&](tracking::EventLogWriter& log) { log.alert(alert); });
  state_->show([&](Sink& sink) { sink.alert(alert); });
}

void Tracker::artifact(ArtifactUse artifact) noexcept {
  artifact.time = tracking::unix_now();
  if (state_) state_->record([&](tracking::EventLogWriter& log) { log.artifact(artifact); });
}

// Sinks that are behind continue without this process; a message names them, and what to do about
// those that do not.
void Tracker::State::wait_for_agent() {
  bool ended = agent->finish(std::min(finish_timeout, kQuietWait));
  if (!ended && finish_timeout > kQuietWait) {
    const auto rest = finish_timeout - kQuietWait;
    show([&](Sink& sink) {
      sink.text({.time = tracking::unix_now(),
                 .level = TextLevel::Info,
                 .line = fmt::format("waiting for the sinks, at most {} s", rest.count() / 1000)});
    });
    ended = agent->finish(rest);
  }
  const auto left = tracking::describe_incomplete(tracking::read_sink_status(run_dir, node_rank));
  if (left.empty()) return;
  const auto sync = fmt::format("lockstep sync {}", run_dir.string());
  problem =
      ended ? fmt::format("{} (no data is lost: {} tries again)", left, sync)
            : fmt::format("{} (continues in the background; if it is interrupted: {})", left, sync);
}

TrackingReport Tracker::finish(const RunEnd& end) noexcept {
  if (!state_) return {};
  const auto state = std::move(state_);
  state->check_log();
  state->record([&](tracking::EventLogWriter& log) {
    log.end(end);
    log.close();
  });
  state->show([&](Sink& sink) { sink.run_finished(end); });
  // A failed rank must not delay the others, or the launcher.
  if (state->agent && end.state == RunState::Finished && state->lost.empty())
    state->contain_errors("tracking agent", [&] { state->wait_for_agent(); });
  TrackingReport report;
  state->contain_errors("report", [&] { report = state->report(); });
  return report;
}

}  // namespace lockstep
