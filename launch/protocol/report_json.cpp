#include "launch/protocol/report_json.h"

#include <algorithm>

#include "launch/protocol/message_fields.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestMessage = 8u << 10;
constexpr size_t kMostToldFailures = 8;
constexpr int kMostRanks = 100'000'000;
constexpr int64_t kLatest = INT64_MAX;

Json to_json(const WorkerEnd& end) {
  Json json = {{"rank", end.rank},           {"local_rank", end.local_rank},
               {"node_rank", end.node_rank}, {"host", end.host},
               {"time_us", end.time_us},     {"stopped", end.stopped},
               {"log", end.log.string()}};
  if (end.exit.signal)
    json["signal"] = *end.exit.signal;
  else
    json["code"] = end.exit.code;
  if (!end.hang.empty()) json["hang"] = end.hang;
  if (!end.failed() || end.stopped) return json;
  if (end.error) json["error"] = to_json(*end.error);
  json["last_lines"] = end.last_lines;
  return json;
}

WorkerEnd parse_worker(const Json& json) {
  const MessageFields fields(json);
  WorkerEnd end{.rank = fields.number("rank", 0, kMostRanks),
                .local_rank = fields.number("local_rank", 0, kMostRanks),
                .node_rank = fields.number("node_rank", 0, kMostRanks),
                .host = fields.text("host")};
  end.exit.signal = fields.optional_number("signal", 1, 64);
  if (!end.exit.signal) end.exit.code = fields.number("code", 0, 255);
  end.time_us = fields.integer("time_us", 0, kLatest);
  end.stopped = fields.flag("stopped");
  end.log = fields.text("log");
  if (fields.has("hang")) end.hang = fields.text("hang");
  if (fields.has("error")) end.error = parse_error_report(fields.member("error"));
  if (!fields.has("last_lines")) return end;
  for (const auto& line : fields.list("last_lines"))
    if (line.is_string()) end.last_lines.push_back(line.get<std::string>());
  return end;
}

Json to_json(const NodeFailure& failure) {
  return {{"node_rank", failure.node_rank},
          {"host", failure.host},
          {"reason", failure.reason},
          {"exit_code", failure.exit_code}};
}

NodeFailure parse_failure(const Json& json) {
  const MessageFields fields(json);
  return {.node_rank = fields.number("node_rank", 0, kMostRanks),
          .host = fields.text("host"),
          .reason = fields.text("reason"),
          .exit_code = fields.number("exit_code", 1, 255)};
}

}  // namespace

Json to_json(const ErrorReport& error) {
  return {{"message", error.message.substr(0, kLongestMessage)},
          {"kind", error.kind},
          {"peer", error.peer},
          {"timestamp_us", error.timestamp_us}};
}

ErrorReport parse_error_report(const Json& json) {
  const MessageFields fields(json);
  return {.message = fields.text("message"),
          .kind = fields.text("kind"),
          .peer = fields.flag("peer"),
          .timestamp_us = fields.integer("timestamp_us", 0, kLatest)};
}

LaunchReport outline_of(LaunchReport report) {
  const auto* told = report.cause();
  // Of ranks that ended in good order one is enough to tell that, and the exit code.
  if (!told && report.preempted_by())
    told = &*std::find_if(report.workers.begin(), report.workers.end(),
                          [](const auto& worker) { return worker.preempted_by().has_value(); });
  const int rank = told ? told->rank : -1;
  std::erase_if(report.workers, [&](const auto& worker) { return worker.rank != rank; });
  if (report.node_failures.size() > kMostToldFailures)
    report.node_failures.resize(kMostToldFailures);
  report.notes.clear();
  return report;
}

Json to_json(const LaunchReport& report) {
  Json json = {{"world_size", report.world_size},
               {"restarts", report.restarts},
               {"node_rank", report.node_rank},
               {"run_id", report.run_id},
               {"workers", Json::array()},
               {"node_failures", Json::array()},
               {"notes", report.notes}};
  if (report.interrupted_by) json["interrupted_by"] = *report.interrupted_by;
  for (const auto& worker : report.workers) json["workers"].push_back(to_json(worker));
  for (const auto& failure : report.node_failures)
    json["node_failures"].push_back(to_json(failure));
  return json;
}

LaunchReport parse_report(const Json& json) {
  const MessageFields fields(json);
  LaunchReport report{.world_size = fields.number("world_size", 1, kMostRanks)};
  report.restarts = fields.number("restarts", 0, kMostRanks);
  report.node_rank = fields.number("node_rank", 0, kMostRanks);
  report.run_id = fields.text("run_id");
  report.interrupted_by = fields.optional_number("interrupted_by", 1, 64);
  for (const auto& worker : fields.list("workers")) report.workers.push_back(parse_worker(worker));
  for (const auto& failure : fields.list("node_failures"))
    report.node_failures.push_back(parse_failure(failure));
  for (const auto& note : fields.list("notes"))
    if (note.is_string()) report.notes.push_back(note.get<std::string>());
  return report;
}

}  // namespace lockstep
