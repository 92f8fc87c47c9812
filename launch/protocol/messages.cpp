#include "launch/protocol/messages.h"

#include <fmt/format.h>

#include <type_traits>

#include "launch/protocol/message_fields.h"
#include "launch/protocol/report_json.h"
#include "launch/protocol/status_json.h"
#include "launch/report/error_file.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr int kMostWorldSize = 100'000'000;

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
constexpr const char* type_word(Of<StackRequest>) { return "answer"; }
constexpr const char* type_word(Of<EndedMessage>) { return "ended"; }
constexpr const char* type_word(Of<FinishMessage>) { return "finish"; }
constexpr const char* type_word(Of<ProbeMessage>) { return "probe"; }
constexpr const char* type_word(Of<HereMessage>) { return "here"; }
constexpr const char* type_word(Of<DroppedMessage>) { return "dropped"; }
constexpr const char* type_word(Of<AliveMessage>) { return "alive"; }

// The members of each: write_members() and read_members() are each other's inverse.
template <class Message>
concept WithoutMembers = std::is_empty_v<Message>;
void write_members(Json&, const WithoutMembers auto&) {}
void read_members(const MessageFields&, WithoutMembers auto&) {}

void write_members(Json& json, const ChallengeMessage& message) {
  json["protocol"] = message.protocol;
  json["version"] = message.version;
  json["challenge"] = message.challenge;
}

void read_members(const MessageFields& fields, ChallengeMessage& message) {
  message.protocol = fields.number_or_zero("protocol");
  message.version = fields.text_or_empty("version");
  message.challenge = fields.text_or_empty("challenge");
}

void write_members(Json& json, const NodeProofMessage& message) {
  json["protocol"] = message.protocol;
  json["version"] = message.version;
  json["challenge"] = message.challenge;
  json["proof"] = message.proof;
}

void read_members(const MessageFields& fields, NodeProofMessage& message) {
  message.protocol = fields.number_or_zero("protocol");
  message.version = fields.text_or_empty("version");
  message.challenge = fields.text_or_empty("challenge");
  message.proof = fields.text_or_empty("proof");
}

void write_members(Json& json, const CoordinatorProofMessage& message) {
  json["proof"] = message.proof;
}

void read_members(const MessageFields& fields, CoordinatorProofMessage& message) {
  message.proof = fields.text_or_empty("proof");
}

void write_members(Json& json, const JoinMessage& message) {
  json["host"] = message.host;
  json["num_workers"] = message.num_workers;
  json["serves"] = message.serves;
  json["agreements"] = Json::array();
  if (message.node_rank) json["node_rank"] = *message.node_rank;
  for (const auto& agreement : message.agreements)
    json["agreements"].push_back({{"what", agreement.what}, {"value", agreement.value}});
}

void read_members(const MessageFields& fields, JoinMessage& message) {
  message.host = fields.text("host");
  message.num_workers = fields.number("num_workers", 1, 1 << 20);
  message.node_rank = fields.optional_number("node_rank", 0, kMostWorldSize);
  message.serves = fields.flag("serves");
  for (const auto& item : fields.list("agreements")) {
    const MessageFields agreement(item);
    message.agreements.push_back(
        {.what = agreement.text("what"), .value = agreement.text("value")});
  }
}

void write_members(Json& json, const WelcomeMessage& message) { json["host"] = message.host; }

void read_members(const MessageFields& fields, WelcomeMessage& message) {
  message.host = fields.text("host");
}

void write_members(Json& json, const RefusedMessage& message) {
  json["kind"] = kind_name(message.kind);
  json["message"] = message.message;
}

void read_members(const MessageFields& fields, RefusedMessage& message) {
  const bool is_config = fields.text("kind") == kind_name(ErrorKind::Config);
  message.kind = is_config ? ErrorKind::Config : ErrorKind::Environment;
  message.message = fields.text("message");
}

void write_members(Json& json, const ReadyMessage& message) {
  json["address"] = message.address;
  json["port"] = message.port;
}

void read_members(const MessageFields& fields, ReadyMessage& message) {
  message.address = fields.text("address");
  message.port = fields.number("port", 1, 65535);
}

void write_members(Json& json, const NodePlace& place) {
  json["node_rank"] = place.node_rank;
  json["num_nodes"] = place.num_nodes;
  json["first_rank"] = place.first_rank;
  json["world_size"] = place.world_size;
  json["restart_count"] = place.restart_count;
  json["max_restarts"] = place.max_restarts;
  json["master_addr"] = place.master_addr;
  json["master_port"] = place.master_port;
  json["run_id"] = place.run_id;
}

void read_members(const MessageFields& fields, NodePlace& place) {
  place.node_rank = fields.number("node_rank", 0, kMostWorldSize);
  place.num_nodes = fields.number("num_nodes", 1, kMostWorldSize);
  place.first_rank = fields.number("first_rank", 0, kMostWorldSize);
  place.world_size = fields.number("world_size", 1, kMostWorldSize);
  place.restart_count = fields.number("restart_count", 0, kMostWorldSize);
  place.max_restarts = fields.number("max_restarts", 0, INT32_MAX);
  place.master_addr = fields.text("master_addr");
  place.master_port = fields.number("master_port", 1, 65535);
  place.run_id = fields.text("run_id");
}

void write_members(Json& json, const StatusMessage& message) {
  json["value"] = Json::array();
  for (const auto& view : message.ranks) json["value"].push_back(to_json(view));
}

void read_members(const MessageFields& fields, StatusMessage& message) {
  for (const auto& item : fields.list("value"))
    if (auto view = parse_rank_view(item)) message.ranks.push_back(std::move(*view));
}

void write_members(Json& json, const StackRequest& request) {
  json["value"] = request.dump ? Json{{"dump", true}} : Json{{"stacks", request.ranks}};
}

void read_members(const MessageFields& fields, StackRequest& request) {
  const MessageFields value(fields.member("value"));
  request.dump = value.has("dump") && value.flag("dump");
  if (!request.dump) request.ranks = value.numbers<int>("stacks", 0, kMostWorldSize);
}

void write_members(Json& json, const EndedMessage& message) {
  json["report"] = to_json(message.report);
  json["time_us"] = message.time_us;
  json["leaves"] = message.leaves;
}

void read_members(const MessageFields& fields, EndedMessage& message) {
  message.report = parse_report(fields.member("report"));
  message.time_us = fields.integer("time_us", 0, INT64_MAX);
  message.leaves = fields.flag("leaves");
}

void write_members(Json& json, const FinishMessage& message) {
  json["report"] = to_json(message.report);
  if (message.error) json["error"] = to_json(*message.error);
}

void read_members(const MessageFields& fields, FinishMessage& message) {
  message.report = parse_report(fields.member("report"));
  if (fields.has("error")) message.error = parse_error_report(fields.member("error"));
}

template <class... Messages>
std::string to_content(const std::variant<Messages...>& any) {
  return std::visit(
      []<class Message>(const Message& message) {
        Json json = {{"type", type_word(Of<Message>())}};
        write_members(json, message);
        return json.dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      any);
}

template <class Message, class Any>
void read_if(const std::string& type, const MessageFields& fields, std::optional<Any>& any) {
  if (type == type_word(Of<Message>()))
    read_members(fields, any.emplace().template emplace<Message>());
}

template <class... Messages>
void read_any(std::string_view content, std::optional<std::variant<Messages...>>& any) {
  const auto json = Json::parse(content, nullptr, false);
  const auto type = json.is_object() ? json.find("type") : json.end();
  if (type == json.end() || !type->is_string())
    throw environment_error("something that is no message");
  const MessageFields fields(json);
  (read_if<Messages>(type->template get_ref<const std::string&>(), fields, any), ...);
}

}  // namespace

std::string encode(const NodeMessage& message) { return to_content(message); }
std::string encode(const CoordinatorMessage& message) { return to_content(message); }

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

void add_to(LaunchReport& attempt, const EndedMessage& message, const std::string& label,
            bool is_own) {
  const auto clock_error = unix_time_us() - message.time_us;
  for (auto worker : message.report.workers) {
    // Clocks of hosts differ, and the earliest failure is the cause.
    worker.time_us += clock_error;
    if (worker.error && worker.error->timestamp_us) worker.error->timestamp_us += clock_error;
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

}  // namespace lockstep
