#include "tracking/tracker.h"

#include <fmt/format.h>

#include <ctime>
#include <exception>

#include "core/durable_file.h"
#include "tracking/event_log_writer.h"
#include "tracking/run_directory.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct NamedSink {
  std::string name;
  std::shared_ptr<Sink> sink;  // null once it failed
};

}  // namespace

struct Tracker::State {
  State(const TrackerOptions& options, const RunInfo& info)
      : log(event_log_path(options.run_dir, info.rank)) {
    for (const auto& name : options.config.sinks)
      if (name != "console" || shows_progress(options.config.ranks, info.rank))
        sinks.push_back(
            {name, make_sink(name, {.console = options.console, .length = options.length})});
  }

  // The tracking fence: nothing that goes wrong behind it reaches the training.
  template <class Call>
  void fenced(const std::string& what, const Call& call) noexcept {
    try {
      try {
        call();
      } catch (const std::exception& error) {
        if (problem.empty()) problem = fmt::format("{}: {}", what, error.what());
      }
    } catch (...) {
      problem =
          "tracking failed";  // not even the message could be made; short enough to need no memory
    }
  }

  template <class Call>
  void record(const Call& call) noexcept {
    fenced("event log", [&] { call(log); });
  }

  template <class Call>
  void each_sink(const Call& call) noexcept {
    for (auto& [name, sink] : sinks) {
      if (!sink) continue;
      bool done = false;
      fenced(name, [&] {
        call(*sink);
        done = true;
      });
      if (!done) sink.reset();
    }
  }

  TrackingReport report() const {
    if (log.num_dropped() == 0) return {.problem = problem};
    return {.num_dropped = log.num_dropped(),
            .problem = fmt::format("{} record{} not kept in the event log: {}", log.num_dropped(),
                                   log.num_dropped() == 1 ? " was" : "s were", log.failure())};
  }

  EventLogWriter log;
  std::vector<NamedSink> sinks;
  std::string problem;
};

Tracker::Tracker() = default;
Tracker::~Tracker() = default;
Tracker::Tracker(Tracker&&) noexcept = default;
Tracker& Tracker::operator=(Tracker&&) noexcept = default;
Tracker::Tracker(std::unique_ptr<State> state) : state_(std::move(state)) {}

Tracker open_tracker(const TrackerOptions& options) {
  verify_sinks(options.config.sinks);
  auto info = decide(options.config.ranks, options.process,
                     {.run_name = options.config.run_name, .group = options.config.group});
  if (!info) return {};
  if (info->created == 0) info->created = unix_now();
  make_directories(event_log_path(options.run_dir, info->rank).parent_path());
  auto state = std::make_unique<Tracker::State>(options, *info);
  state->record([&](EventLogWriter& log) {
    log.identity(*info);
    log.config(options.run_config);
    if (options.resume_step) log.rewind(*options.resume_step);
  });
  state->each_sink([&](Sink& sink) { sink.run_started(*info, options.run_config); });
  return Tracker(std::move(state));
}

void Tracker::log(int64_t step, double epoch, std::span<const Metric> metrics) noexcept {
  if (!state_) return;
  const ScalarRow row{.step = step, .time = unix_now(), .epoch = epoch, .values = metrics};
  state_->record([&](EventLogWriter& log) { log.scalars(row); });
  state_->each_sink([&](Sink& sink) { sink.scalars(row); });
}

void Tracker::text(TextLevel level, std::string_view line) noexcept {
  if (!state_) return;
  state_->record([&](EventLogWriter& log) { log.text(unix_now(), level, line); });
  state_->each_sink([&](Sink& sink) { sink.text(level, line); });
}

void Tracker::summary(std::string_view name, double value) noexcept {
  if (!state_) return;
  state_->record([&](EventLogWriter& log) { log.summary({{std::string(name), value}}); });
}

TrackingReport Tracker::finish(const RunEnd& end, std::chrono::milliseconds deadline) noexcept {
  if (!state_) return {};
  const auto latest = Clock::now() + deadline;
  const auto state = std::move(state_);
  state->record([&](EventLogWriter& log) {
    log.end(end);
    log.close();
  });
  TrackingReport report;
  state->fenced("report", [&] {
    report = state->report();
    if (!report.problem.empty())
      state->each_sink(
          [&](Sink& sink) { sink.text(TextLevel::Warning, "tracking: " + report.problem); });
  });
  for (auto& [name, sink] : state->sinks) {
    if (!sink) continue;
    if (Clock::now() >= latest) {
      state->fenced(name, [&] {
        report.problem =
            fmt::format("sink {} was not finished within {} ms", name, deadline.count());
      });
      break;
    }
    state->fenced(name, [&] { sink->run_finished(end); });
  }
  if (report.problem.empty()) report.problem = state->problem;
  return report;
}

}  // namespace lockstep
