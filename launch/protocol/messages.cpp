#include "launch/protocol/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/field_reader.h"
#include "core/field_writer.h"
#include "launch/protocol/connection.h"
#include "launch/protocol/group_fields.h"
#include "launch/report/error_file.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLatest = INT64_MAX;
constexpr size_t kMaxMessageLength = 8u << 10;
// Of the texts of ranks that are not the cause, as JSON may need six bytes for one.
constexpr size_t kMaxOtherTexts = Connection::kMaxMessageBytes / 8;
constexpr size_t kMaxReportedFailures = 8;

// The "type" of each message.
template <class Message>
using Of = std::type_identity<Message>;
constexpr const char* type_word(Of<ChallengeMessage>) { return "challenge"; }
constexpr const char* type_word(Of<NodeProofMessage>) { return "proof"; }
constexpr const char* type_word(Of<CoordinatorProofMessage>) { return "proof"; }
constexpr const char* type_word(Of<JoinMessage>) { return "join"; }
constexpr const char* type_word(Of<WelcomeMessage>) { return "welcome"; }
constexpr const char* type_word(Of<RefusedMessage>) { return "refused"; }
constexpr const char* type_word(Of<ReadyMessage>) { return "ready"; }
constexpr const char* type_word(Of<NodePlace>) { return "start"; }
constexpr const char* type_word(Of<StopOrder>) { return "stop"; }
constexpr const char* type_word(Of<StatusMessage>) { return "status"; }
constexpr const char* type_word(Of<GroupEventsMessage>) { return "group_events"; }
constexpr const char* type_word(Of<GroupState>) { return "group"; }
constexpr const char* type_word(Of<StackRequest>) { return "answer"; }
constexpr const char* type_word(Of<EndedMessage>) { return "ended"; }
constexpr const char* type_word(Of<FinishMessage>) { return "finish"; }
constexpr const char* type_word(Of<ProbeMessage>) { return "probe"; }
constexpr const char* type_word(Of<ProbeReplyMessage>) { return "here"; }
constexpr const char* type_word(Of<DroppedMessage>) { return "dropped"; }
constexpr const char* type_word(Of<HeartbeatMessage>) { return "alive"; }

void cut(std::string& text) { text.resize(std::min(text.size(), kMaxMessageLength)); }

// Leaves out what ranks printed and reported, as soon as there is too much for a message, except of the
// cause.
void limit_texts(LaunchReport& report) {
  report.failed_alike = report.all_failed_alike();
  const auto* cause = report.cause();
  size_t bytes = 0;
  for (auto& worker : report.workers) {
    if (&worker == cause) continue;
    if (worker.error) bytes += std::min(worker.error->message.size(), kMaxMessageLength);
    for (const auto& line : worker.last_lines) bytes += line.size();
    if (bytes <= kMaxOtherTexts) continue;
    if (worker.error) worker.error->message.clear();
    worker.last_lines.clear();
  }
}

}  // namespace

// The fields of each message and of its parts.
template <class V, class Message>
requires std::is_empty_v<Message>
void fields(V&, Message&) {}

template <class V, class Message>
void handshake_fields(V& v, Message& m) {
  if (!V::kWrites) m.protocol = 0;
  v.if_readable("protocol", m.protocol);
  v.if_readable("version", m.version);
  v.if_readable("challenge", m.challenge);
}

template <class V>
void fields(V& v, ChallengeMessage& m) {
  handshake_fields(v, m);
}

template <class V>
void fields(V& v, NodeProofMessage& m) {
  handshake_fields(v, m);
  v.if_readable("proof", m.proof);
}

template <class V>
void fields(V& v, CoordinatorProofMessage& m) {
  v.if_readable("proof", m.proof);
}

template <class V>
void fields(V& v, Agreement& agreement) {
  v("what", agreement.what);
  v("value", agreement.value);
}

template <class V>
void fields(V& v, ReturningNode& m) {
  v("node", m.node, 0, kMaxRanks);
  v("job", m.job);
  v.list("events", m.events);
  v.given("ended", m.ended);
}

template <class V>
void fields(V& v, JoinMessage& m) {
  v("host", m.host);
  v("num_workers", m.num_workers, 1, 1 << 20);
  v.given("num_spares", m.num_spares, 0, 1 << 20);
  v.given("node_rank", m.node_rank, 0, kMaxRanks);
  v("serves", m.serves);
  v.list("agreements", m.agreements);
  v.given("returning", m.returning);
}

template <class V>
void fields(V& v, WelcomeMessage& m) {
  v("host", m.host);
}

template <class V>
void fields(V& v, RefusedMessage& m) {
  std::string kind = kind_name(m.kind);
  v("kind", kind);
  m.kind = kind == kind_name(ErrorKind::Config) ? ErrorKind::Config : ErrorKind::Environment;
  v("message", m.message);
}

template <class V>
void fields(V& v, ReadyMessage& m) {
  v("address", m.address);
  v("port", m.port, 1, 65535);
  v.given("successor_port", m.successor_port, 0, 65535);
}

template <class V>
void fields(V& v, NodePlace& place) {
  v("node_rank", place.node_rank, 0, kMaxRanks);
  v("num_nodes", place.num_nodes, 1, kMaxRanks);
  v("first_rank", place.first_rank, 0, kMaxRanks);
  v("world_size", place.world_size, 1, kMaxRanks);
  v("restart_count", place.restart_count, 0, kMaxRanks);
  v("max_restarts", place.max_restarts, 0, INT32_MAX);
  v("master_addr", place.master_addr);
  v("master_port", place.master_port, 1, 65535);
  v.given("address", place.address);
  v("run_id", place.run_id);
  v.given("joins", place.joins);
  v.given("claim", place.claim);
}

template <class V>
void fields(V& v, RankView& view) {
  auto& progress = view.progress;
  v("host", view.host);
  v("rank", progress.rank, 0, INT32_MAX);
  v("pid", progress.pid, 0, INT64_MAX);
  std::string state(1, view.process_state);
  v("state", state);
  view.process_state = state.empty() ? '?' : state.front();
  auto phase = static_cast<uint32_t>(progress.phase);
  v("phase", phase, 0, static_cast<int>(Phase::Finishing));
  progress.phase = Phase{phase};
  v("phase_age", progress.phase_age_s);
  v.pair("step", progress.step, progress.total_steps);
  v("longest_step", progress.longest_step_s);
  v("operations", progress.operations, 0, INT64_MAX);
  v("in_operation", progress.in_operation);
  v("operation", progress.operation);
  v("detail", progress.detail);
  v.pair("buckets", progress.buckets_started, progress.buckets_finished);
  v("bucket", view.bucket);
  v("idle", progress.idle_s);
  v.pair("limits", progress.warn_after_s, progress.timeout_s);
  v.given("stacks", view.stacks);
}

template <class V>
void fields(V& v, StatusMessage& m) {
  v.list_of_readable("value", m.ranks);
}

template <class V>
void fields(V& v, GroupEventsMessage& m) {
  v.list("events", m.events);
}

struct StackRequestValue {
  StackRequest& request;
};

template <class V>
void fields(V& v, StackRequestValue& value) {
  v.given("dump", value.request.dump);
  if (!value.request.dump) v("stacks", value.request.ranks, 0, kMaxRanks);
}

template <class V>
void fields(V& v, StackRequest& request) {
  StackRequestValue value{request};
  v("value", value);
}

template <class V>
void fields(V& v, ErrorReport& error) {
  if (V::kWrites) cut(error.message);
  if (V::kWrites) cut(error.kind);
  v("message", error.message);
  v("kind", error.kind);
  v("peer", error.peer);
  v("timestamp_us", error.timestamp_us, 0, kLatest);
}

template <class V>
void fields(V& v, WorkerEnd& end) {
  v("rank", end.rank, 0, kMaxRanks);
  v("local_rank", end.local_rank, 0, kMaxRanks);
  v("node_rank", end.node_rank, 0, kMaxRanks);
  v.given("pid", end.pid, 0, INT64_MAX);
  v("host", end.host);
  v.given("signal", end.exit.signal, 1, 64);
  if (!end.exit.signal) v("code", end.exit.code, 0, 255);
  v("time_us", end.time_us, 0, kLatest);
  v("stopped", end.stopped);
  auto log = end.log.string();
  v("log", log);
  end.log = log;
  v.given("hang", end.hang);
  // The output of workers that succeeded or were stopped is not sent.
  if (V::kWrites && (!end.failed() || end.stopped)) return;
  v.given("error", end.error);
  v.given("last_lines", end.last_lines);
}

template <class V>
void fields(V& v, NodeFailure& failure) {
  v("node_rank", failure.node_rank, 0, kMaxRanks);
  v("host", failure.host);
  if (V::kWrites) cut(failure.reason);
  v("reason", failure.reason);
  v("exit_code", failure.exit_code, 1, 255);
}

template <class V>
void fields(V& v, LaunchReport& report) {
  if (V::kWrites) limit_texts(report);
  v("world_size", report.world_size, 1, kMaxRanks);
  v("restarts", report.restarts, 0, kMaxRanks);
  v("node_rank", report.node_rank, 0, kMaxRanks);
  v("run_id", report.run_id);
  v.given("interrupted_by", report.interrupted_by, 1, 64);
  v.list("workers", report.workers);
  v.list("node_failures", report.node_failures);
  v("notes", report.notes);
  v.given("failed_alike", report.failed_alike);
}

template <class V>
void fields(V& v, EndedMessage& m) {
  v("report", m.report);
  v("time_us", m.time_us, 0, kLatest);
  v("leaves", m.leaves);
}

template <class V>
void fields(V& v, FinishMessage& m) {
  v("report", m.report);
  v.given("error", m.error);
}

namespace {

template <class... Messages>
std::string to_content(std::variant<Messages...>& any) {
  return std::visit(
      []<class Message>(Message& message) {
        auto json = FieldWriter<Json>::written(message);
        json["type"] = type_word(Of<Message>());
        return json.dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      any);
}

template <class Message, class Any>
void read_if(const std::string& type, FieldReader<Json>& reader, std::optional<Any>& any) {
  if (type == type_word(Of<Message>())) fields(reader, any.emplace().template emplace<Message>());
}

template <class... Messages>
void read_any(std::string_view content, std::optional<std::variant<Messages...>>& any) {
  const auto json = Json::parse(content, nullptr, false);
  const auto type = json.is_object() ? json.find("type") : json.end();
  if (type == json.end() || !type->is_string()) throw environment_error("malformed message");
  FieldReader<Json> reader(json, {.text_bytes = 64u << 10, .list_items = 100'000});
  (read_if<Messages>(type->template get_ref<const std::string&>(), reader, any), ...);
}

}  // namespace

std::string encode(NodeMessage message) { return to_content(message); }
std::string encode(CoordinatorMessage message) { return to_content(message); }

std::optional<NodeMessage> decode_node_message(std::string_view content) {
  std::optional<NodeMessage> message;
  read_any(content, message);
  return message;
}

std::optional<CoordinatorMessage> decode_coordinator_message(std::string_view content) {
  std::optional<CoordinatorMessage> message;
  read_any(content, message);
  return message;
}

LaunchReport outline_of(LaunchReport report) {
  report.failed_alike = report.all_failed_alike();
  const auto* kept = report.cause();
  // One preempted rank is enough to convey the preemption and its exit code.
  if (!kept && report.preempted_by())
    kept = &*std::find_if(report.workers.begin(), report.workers.end(),
                          [](const auto& worker) { return worker.preempted_by().has_value(); });
  const int rank = kept ? kept->rank : -1;
  std::erase_if(report.workers, [&](const auto& worker) { return worker.rank != rank; });
  if (report.node_failures.size() > kMaxReportedFailures)
    report.node_failures.resize(kMaxReportedFailures);
  report.notes.clear();
  return report;
}

void add_to(LaunchReport& attempt, const EndedMessage& message, const std::string& label,
            bool is_own) {
  const auto clock_offset = unix_time_us() - message.time_us;
  for (auto worker : message.report.workers) {
    // The earliest failure is the cause, so clock differences between hosts are corrected.
    worker.time_us += clock_offset;
    if (auto& error = worker.error; error && error->timestamp_us)
      error->timestamp_us = std::max<int64_t>(1, error->timestamp_us + clock_offset);
    if (!worker.host.empty()) worker.host = label;
    attempt.workers.push_back(std::move(worker));
  }
  for (auto failure : message.report.node_failures) {
    if (!failure.host.empty()) failure.host = label;
    attempt.node_failures.push_back(std::move(failure));
  }
  for (const auto& text : message.report.notes)
    attempt.notes.push_back(is_own ? text : fmt::format("{}: {}", label, text));
}

}  // namespace lockstep::launch
