// The otlp sink: sends metrics and logs to an OpenTelemetry collector, or to another receiver of
// OTLP over HTTP.
#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "lockstep/sink.h"
#include "lockstep/version.h"
#include "tracking/sinks/otlp/otlp_client.h"

namespace lockstep::tracking {
namespace {

// Of one request, which then has about half a MB before compression; collectors accept 20 MB.
constexpr size_t kMaxOtlpValues = 4000, kMaxOtlpRecords = 1000;
constexpr size_t kMaxOtlpReason = 300;

TextLevel end_level(RunState state) {
  switch (state) {
    case RunState::Running:
    case RunState::Finished: return TextLevel::Info;
    case RunState::Preempted: return TextLevel::Warning;
    default: return TextLevel::Error;
  }
}

OtlpAttributes resource_of(const RunInfo& info, const std::map<std::string, std::string>& given) {
  OtlpAttributes resource = {
      {"service.instance.id", info.id},  {"host.name", info.host},
      {"process.pid", info.pid},         {"telemetry.sdk.name", "lockstep"},
      {"telemetry.sdk.language", "cpp"}, {"telemetry.sdk.version", kVersion}};
  for (const auto& [name, value] : given) resource[name] = value;
  return resource;
}

OtlpAttributes description_of(const RunInfo& info) {
  return {{"name", info.name},
          {"job_id", info.job_id},
          {"group", info.group.value_or("")},
          {"world_size", info.world_size}};
}

class OtlpSink final : public Sink {
 public:
  using Config = OtlpConfig;
  OtlpSink(const Config& config, const SinkContext& context)
      : settings_(otlp_settings(config, context.environment)),
        sends_console_(config.console),
        started_(kept(context.state, "started", 0.0)),
        last_time_(kept(context.state, "last_time", 0.0)),
        rejected_(kept(context.state, "rejected", int64_t{0})),
        reason_(kept(context.state, "reason", std::string())) {
    if (settings_.metrics) metrics_client_.emplace(*settings_.metrics);
    if (settings_.logs) logs_client_.emplace(*settings_.logs);
  }

  Json destination() const override {
    auto places = Json::array();
    for (const auto* endpoint : {&settings_.metrics, &settings_.logs})
      places.push_back(*endpoint ? Json((*endpoint)->address.origin() + (*endpoint)->address.path)
                                 : Json(nullptr));
    return places;
  }

  void run_started(const RunInfo& info, const Json&) override {
    const auto resource = resource_of(info, settings_.resource);
    const OtlpAttributes common = {{"run", info.id}, {"rank", info.rank}, {"host", info.host}};
    metrics_.emplace(resource, common);
    logs_.emplace(resource, common);
    last_time_ = std::max(last_time_, info.created);
    // A new object after an error is not a new start.
    if (started_ == info.created) return;
    const bool is_resumed = started_ != 0;
    started_ = info.created;
    if (metrics_client_) metrics_->add("lockstep.run.info", info.created, 1, description_of(info));
    log({.time = info.created,
         .event = is_resumed ? "lockstep.run.resume" : "lockstep.run.start",
         .body = fmt::format("{} {}, {} rank{}", info.name, is_resumed ? "resumed" : "started",
                             info.world_size, info.world_size == 1 ? "" : "s"),
         .attributes = description_of(info)});
  }

  void scalars(const ScalarRow& row) override {
    last_time_ = row.time;
    if (!metrics_client_) return;
    bool has_step = false;
    for (const auto& [name, value] : row.values) {
      metrics_->add(name, row.time, value);
      has_step |= !name.starts_with("system/");  // its steps are not steps of the run
    }
    if (has_step)
      metrics_->add("lockstep.step", row.time, static_cast<double>(row.step),
                    OtlpAttributes::object());
  }

  void text(const TextLine& text) override {
    last_time_ = text.time;
    if (text.level == TextLevel::Debug || text.level == TextLevel::Info) return;
    log({.time = text.time, .level = text.level, .event = "lockstep.message", .body = text.line});
  }

  void console(const ConsoleLine& line) override {
    last_time_ = line.time;
    if (!sends_console_) return;
    log({.time = line.time,
         .event = "lockstep.console",
         .body = line.line,
         .attributes = {{"rank", line.rank},
                        {"log.iostream", line.is_error ? "stderr" : "stdout"}}});
  }

  void alert(const Alert& alert) override {
    last_time_ = alert.time;
    OtlpAttributes attributes = {{"title", alert.title}};
    if (alert.step) attributes["step"] = *alert.step;
    log({.time = alert.time,
         .level = alert.level,
         .event = "lockstep.alert",
         .body = alert.text.empty() ? alert.title : alert.title + ": " + alert.text,
         .attributes = attributes});
  }

  void run_finished(const RunEnd& end) override {
    OtlpAttributes attributes = {{"state", state_name(end.state)}, {"exit_code", end.exit_code}};
    if (end.signal) attributes["signal"] = *end.signal;
    if (end.rank) attributes["failed_rank"] = *end.rank;
    log({.time = last_time_,
         .level = end_level(end.state),
         .event = "lockstep.run.end",
         .body = end.reason.empty() ? state_name(end.state)
                                    : fmt::format("{}: {}", state_name(end.state), end.reason),
         .attributes = attributes});
  }

  Json flush() override {
    if (metrics_client_) send(*metrics_client_, *metrics_, kMaxOtlpValues, "values");
    if (logs_client_) send(*logs_client_, *logs_, kMaxOtlpRecords, "log records");
    return {{"started", started_},
            {"last_time", last_time_},
            {"rejected", rejected_},
            {"reason", reason_}};
  }

 private:
  template <class T>
  static T kept(const Json& state, const char* name, const T& otherwise) {
    return state.is_object() && state.contains(name) ? state[name].get<T>() : otherwise;
  }

  void log(const OtlpLog& log) {
    if (logs_client_) logs_->add(log);
  }

  template <class Batch>
  void send(OtlpClient& client, Batch& batch, size_t max_items, const char* what) {
    OtlpRejection rejected;
    for (size_t first = 0; first < batch.size(); first += max_items) {
      const auto [count, reason] = client.send(batch.request(first, max_items));
      rejected.count += count;
      if (count > 0) rejected.reason = printable(reason, kMaxOtlpReason);
    }
    batch.clear();
    if (rejected.count > 0) note(rejected, what);
  }

  // The receiver must not get them again; the event log keeps them.
  void note(const OtlpRejection& rejected, const char* what) {
    const bool is_first = rejected_ == 0;
    rejected_ += rejected.count;
    reason_ = rejected.reason;
    if (is_first)
      log({.time = last_time_,
           .level = TextLevel::Warning,
           .event = "lockstep.rejected",
           .body = fmt::format("the receiver rejected {} {}: {}", rejected.count, what, reason_)});
  }

  const OtlpSettings settings_;
  const bool sends_console_;
  std::optional<OtlpClient> metrics_client_, logs_client_;
  std::optional<OtlpMetrics> metrics_;
  std::optional<OtlpLogs> logs_;
  double started_;  // when the run started that the last start record is about
  double last_time_;  // of the last record
  int64_t rejected_;  // values and log records, since the start of the run
  std::string reason_;
};

REGISTER_SINK("otlp", OtlpSink, "metrics and logs to an OpenTelemetry collector");

}  // namespace
}  // namespace lockstep::tracking
