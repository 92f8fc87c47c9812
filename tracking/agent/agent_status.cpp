#include "tracking/agent/agent_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/durable_file.h"
#include "core/error.h"
#include "tracking/run_directory.h"

namespace lockstep {
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

void write_sink_status(const std::filesystem::path& run_dir, int node_rank,
                       const std::vector<SinkStatus>& sinks) {
  auto list = Json::array();
  for (const auto& sink : sinks) list.push_back(status_to_json(sink));
  write_file_durably(
      status_path(run_dir, node_rank),
      Json{{"sinks", list}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<SinkStatus> read_sink_status(const std::filesystem::path& run_dir, int node_rank) {
  Json json;
  try {
    json = Json::parse(read_file(status_path(run_dir, node_rank)), nullptr, false);
  } catch (const Error&) {
    return {};
  }
  if (!json.is_object() || !json.contains("sinks") || !json["sinks"].is_array()) return {};
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

std::string describe_incomplete(const std::vector<SinkStatus>& sinks) {
  std::vector<std::string> texts;
  for (const auto& sink : sinks) {
    if (sink.complete) continue;
    const auto behind = sink.backlog > 0
                            ? fmt::format(" is {} kB behind", (sink.backlog + 1023) / 1024)
                            : std::string(" is not complete");
    texts.push_back(sink.name + behind + (sink.problem.empty() ? "" : ": " + sink.problem));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace lockstep
