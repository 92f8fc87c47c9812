#include "launch/rendezvous/messages.h"

#include <fmt/format.h>

#include "launch/error_file.h"
#include "launch/rendezvous/message_fields.h"
#include "launch/rendezvous/report_json.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr int kMostWorldSize = 100'000'000;

}  // namespace

Json to_json(const JoinMessage& message) {
  Json json = {{"type", "join"},
               {"host", message.host},
               {"num_workers", message.num_workers},
               {"serves", message.serves},
               {"agreements", Json::array()}};
  if (message.node_rank) json["node_rank"] = *message.node_rank;
  for (const auto& agreement : message.agreements)
    json["agreements"].push_back({{"what", agreement.what}, {"value", agreement.value}});
  return json;
}

JoinMessage parse_join(const Json& message) {
  const MessageFields fields(message);
  JoinMessage join{.host = fields.text("host"),
                   .num_workers = fields.number("num_workers", 1, 1 << 20),
                   .node_rank = fields.optional_number("node_rank", 0, kMostWorldSize),
                   .serves = fields.flag("serves")};
  for (const auto& item : fields.list("agreements")) {
    const MessageFields agreement(item);
    join.agreements.push_back({.what = agreement.text("what"), .value = agreement.text("value")});
  }
  return join;
}

Json to_json(const ReadyMessage& message) {
  return {{"type", "ready"}, {"address", message.address}, {"port", message.port}};
}

ReadyMessage parse_ready(const Json& message) {
  const MessageFields fields(message);
  return {.address = fields.text("address"), .port = fields.number("port", 1, 65535)};
}

Json to_json(const NodePlace& start) {
  return {{"type", "start"},
          {"node_rank", start.node_rank},
          {"num_nodes", start.num_nodes},
          {"first_rank", start.first_rank},
          {"world_size", start.world_size},
          {"restart_count", start.restart_count},
          {"max_restarts", start.max_restarts},
          {"master_addr", start.master_addr},
          {"master_port", start.master_port},
          {"run_id", start.run_id}};
}

NodePlace parse_start(const Json& message) {
  const MessageFields fields(message);
  NodePlace place{.node_rank = fields.number("node_rank", 0, kMostWorldSize),
                  .num_nodes = fields.number("num_nodes", 1, kMostWorldSize),
                  .first_rank = fields.number("first_rank", 0, kMostWorldSize),
                  .world_size = fields.number("world_size", 1, kMostWorldSize)};
  place.restart_count = fields.number("restart_count", 0, kMostWorldSize);
  place.max_restarts = fields.number("max_restarts", 0, INT32_MAX);
  place.master_addr = fields.text("master_addr");
  place.master_port = fields.number("master_port", 1, 65535);
  place.run_id = fields.text("run_id");
  return place;
}

Json to_json(const EndedMessage& message) {
  return {{"type", "ended"},
          {"report", to_json(message.report)},
          {"time_us", message.time_us},
          {"leaves", message.leaves}};
}

EndedMessage parse_ended(const Json& message) {
  const MessageFields fields(message);
  return {.report = parse_report(fields.member("report")),
          .time_us = fields.integer("time_us", 0, INT64_MAX),
          .leaves = fields.flag("leaves")};
}

Json to_json(const FinishMessage& message) {
  Json json = {{"type", "finish"}, {"report", to_json(message.report)}};
  if (message.error) json["error"] = to_json(*message.error);
  return json;
}

FinishMessage parse_finish(const Json& message) {
  const MessageFields fields(message);
  FinishMessage finish{.report = parse_report(fields.member("report"))};
  if (fields.has("error")) finish.error = parse_error_report(fields.member("error"));
  return finish;
}

Json refusal(const Error& error) {
  return {{"type", "refused"}, {"kind", kind_name(error.kind())}, {"message", error.what()}};
}

Error parse_refusal(const Json& message) {
  const MessageFields fields(message);
  const bool is_config = fields.text("kind") == kind_name(ErrorKind::Config);
  return {is_config ? ErrorKind::Config : ErrorKind::Environment, fields.text("message")};
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

std::string type_of(const Json& message) {
  const auto type = message.find("type");
  return type != message.end() && type->is_string() ? type->get<std::string>() : "";
}

}  // namespace lockstep
