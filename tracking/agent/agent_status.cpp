#include "tracking/agent/agent_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

std::filesystem::path status_path(const std::filesystem::path& run_dir, int node_rank) {
  return sinks_path(run_dir) / fmt::format("agent-{:05}.json", node_rank);
}

Json status_to_json(const SinkStatus& status) {
  return {{"name", status.name},
          {"complete", status.complete},
          {"gave_up", status.gave_up},
          {"backlog", status.backlog},
          {"problem", status.problem}};
}

// An empty object if the file is missing or unreadable.
Json read_status(const std::filesystem::path& run_dir, int node_rank) {
  try {
    auto json = parse_json(read_file(status_path(run_dir, node_rank)));
    if (json.is_object()) return json;
  } catch (const Error&) {
    // Not written yet.
  }
  return Json::object();
}

template <class T>
T member_or(const Json& json, const char* key, T otherwise) {
  const auto it = json.find(key);
  try {
    return it == json.end() ? otherwise : it->get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

}  // namespace

void write_agent_status(const std::filesystem::path& run_dir, int node_rank,
                        const std::vector<SinkStatus>& sinks, const AlertState& alerts) {
  auto list = Json::array();
  for (const auto& sink : sinks) list.push_back(status_to_json(sink));
  write_file_durably(
      status_path(run_dir, node_rank),
      Json{{"sinks", list}, {"alerts", {{"time", alerts.time}, {"causes", alerts.causes}}}}.dump(
          1, ' ', false, Json::error_handler_t::replace) +
          "\n");
}

std::vector<SinkStatus> read_sink_status(const std::filesystem::path& run_dir, int node_rank) {
  const auto json = read_status(run_dir, node_rank);
  if (!json.contains("sinks") || !json["sinks"].is_array()) return {};
  std::vector<SinkStatus> sinks;
  for (const auto& sink : json["sinks"])
    if (sink.is_object())
      sinks.push_back({.name = member_or<std::string>(sink, "name", ""),
                       .complete = member_or(sink, "complete", false),
                       .gave_up = member_or(sink, "gave_up", false),
                       .backlog = member_or<uint64_t>(sink, "backlog", 0),
                       .problem = member_or<std::string>(sink, "problem", "")});
  return sinks;
}

AlertState read_alert_state(const std::filesystem::path& run_dir, int node_rank) {
  const auto json = read_status(run_dir, node_rank);
  if (!json.contains("alerts") || !json["alerts"].is_object()) return {};
  return {.time = member_or(json["alerts"], "time", 0.0),
          .causes = json["alerts"].value("causes", Json())};
}

std::string describe_incomplete(const std::vector<SinkStatus>& sinks) {
  std::vector<std::string> texts;
  for (const auto& sink : sinks) {
    if (sink.complete) continue;
    const auto state = sink.backlog > 0
                           ? fmt::format(" is {} kB behind", (sink.backlog + 1023) / 1024)
                           : std::string(" is not complete");
    texts.push_back(sink.name + state + (sink.problem.empty() ? "" : ": " + sink.problem));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace lockstep::tracking
