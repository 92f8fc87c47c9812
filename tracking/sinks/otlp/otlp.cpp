// The otlp sink: sends metrics and logs to an OpenTelemetry collector, or to another receiver of
// OTLP over HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/sink.h"
#include "lockstep/version.h"
#include "tracking/log/system_metric.h"
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
        num_flushes_(kept(context.state, "flushes", int64_t{0})),
        delivered_file_(context.dir / "delivered.json"),
        accepted_(kept(context.state, "accepted", Json::object())),
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
    const auto began = info.resumed > 0 ? info.resumed : info.created;
    saw(began);
    read_delivered();
    if (!notice_.is_null()) log_notice();
    // A new object after an error is not a new start.
    if (started_ == began) return;
    const bool is_resumed = started_ != 0;
    started_ = began;
    if (metrics_client_) metrics_->add("lockstep.run.info", began, 1, description_of(info));
    log({.time = began,
         .event = is_resumed ? "lockstep.run.resume" : "lockstep.run.start",
         .body = fmt::format("{} {}, {} rank{}", info.name, is_resumed ? "resumed" : "started",
                             info.world_size, info.world_size == 1 ? "" : "s"),
         .attributes = description_of(info)});
  }

  void scalars(const ScalarRow& row) override {
    saw(row.time);
    if (!metrics_client_) return;
    bool has_step = false;
    for (const auto& [name, value] : row.values) {
      metrics_->add(name, row.time, value);
      has_step |= !is_system_metric(name);
    }
    if (has_step)
      metrics_->add("lockstep.step", row.time, static_cast<double>(row.step),
                    OtlpAttributes::object());
  }

  void text(const TextLine& text) override {
    saw(text.time);
    if (text.level == TextLevel::Debug || text.level == TextLevel::Info) return;
    log({.time = text.time, .level = text.level, .event = "lockstep.message", .body = text.line});
  }

  void console(const ConsoleLine& line) override {
    saw(line.time);
    if (!sends_console_) return;
    log({.time = line.time,
         .event = "lockstep.console",
         .body = line.line,
         .attributes = {{"rank", line.rank},
                        {"log.iostream", line.is_error ? "stderr" : "stdout"}}});
  }

  void alert(const Alert& alert) override {
    saw(alert.time);
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
    delivered_.clear();
    is_stored_ = true;
    notice_ = nullptr;
    ++num_flushes_;
    return {{"started", started_},   {"last_time", last_time_}, {"flushes", num_flushes_},
            {"accepted", accepted_}, {"rejected", rejected_},   {"reason", reason_}};
  }

 private:
  template <class T>
  static T kept(const Json& state, const char* name, const T& otherwise) {
    return state.is_object() && state.contains(name) ? state[name].get<T>() : otherwise;
  }

  // The records of several logs do not have the order of their times.
  void saw(double time) { last_time_ = std::max(last_time_, time); }

  void log(const OtlpLog& log) {
    if (logs_client_) logs_->add(log);
  }

  template <class Batch>
  void send(OtlpClient& client, Batch& batch, size_t max_items, const char* what) {
    batch.remove(delivered_);
    for (size_t first = 0, end = 0; first < batch.size(); first = end) {
      end = std::min(batch.size(), first + max_items);
      store_delivered();
      const auto rejected =
          client.send(batch.request(first, end - first), end - first, accepted_.contains(what));
      accepted_[what] = true;
      for (auto& digest : batch.digests(first, end - first)) delivered_.insert(std::move(digest));
      is_stored_ = false;
      if (rejected.count > 0) note(rejected, what);
    }
    batch.clear();
  }

  // The receiver must not get them again; the event log keeps them.
  void note(const OtlpRejection& rejected, const char* what) {
    const bool is_first = rejected_ == 0;
    rejected_ += rejected.count;
    reason_ = printable(rejected.reason, kMaxOtlpReason);
    if (!is_first) return;
    notice_ = {
        {"time", last_time_},
        {"body", fmt::format("the receiver rejected {} {}: {}", rejected.count, what, reason_)}};
    log_notice();
  }

  void log_notice() {
    log({.time = notice_["time"].get<double>(),
         .level = TextLevel::Warning,
         .event = "lockstep.rejected",
         .body = notice_["body"].get<std::string>()});
  }

  // Before the next request, so that its failure does not send again what the receiver has.
  void store_delivered() {
    if (is_stored_) return;
    write_file_durably(delivered_file_, Json{{"flushes", num_flushes_},
                                             {"digests", delivered_},
                                             {"accepted", accepted_},
                                             {"rejected", rejected_},
                                             {"reason", reason_},
                                             {"notice", notice_}}
                                                .dump() +
                                            "\n");
    is_stored_ = true;
  }

  void read_delivered() {
    std::error_code ignored;
    if (!std::filesystem::exists(delivered_file_, ignored)) return;
    const auto json = Json::parse(read_file(delivered_file_), nullptr, false);
    if (kept(json, "flushes", int64_t{-1}) != num_flushes_) return;  // of an earlier flush
    delivered_ = kept(json, "digests", delivered_);
    accepted_ = kept(json, "accepted", accepted_);
    rejected_ = kept(json, "rejected", rejected_);
    reason_ = kept(json, "reason", reason_);
    notice_ = kept(json, "notice", notice_);
  }

  const OtlpSettings settings_;
  const bool sends_console_;
  std::optional<OtlpClient> metrics_client_, logs_client_;
  std::optional<OtlpMetrics> metrics_;
  std::optional<OtlpLogs> logs_;
  double started_;       // when the run started that the last start record is about
  double last_time_;     // of the last record
  int64_t num_flushes_;  // that succeeded
  // What the receiver got since the last of them, also from earlier objects.
  const std::filesystem::path delivered_file_;
  std::set<std::string> delivered_;  // digests
  bool is_stored_ = true;            // in the file
  Json accepted_;          // {"values": true}: the receiver has accepted a request with these
  int64_t rejected_;       // values and log records, since the start of the run
  Json notice_ = nullptr;  // the record about the first of them, until it is delivered
  std::string reason_;
};

REGISTER_SINK("otlp", OtlpSink, "metrics and logs to an OpenTelemetry collector");

}  // namespace
}  // namespace lockstep::tracking
