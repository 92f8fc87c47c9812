// Handlers of console output, run files and artifacts.
#include <fmt/format.h>

#include <algorithm>

#include "catalog/json_text.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "dashboard/api/console_files.h"
#include "dashboard/api/handlers.h"
#include "lockstep/error.h"
#include "tracking/artifacts/store.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxConsoleBytes = 4u << 20, kMaxListedFiles = 10000;

Json chunk_json(const ConsoleStream& stream, const ConsoleChunk& chunk) {
  return {{"stream", stream.name},
          {"begin", chunk.begin},
          {"end", chunk.end},
          {"size", chunk.size},
          {"lines", chunk.lines}};
}

ConsoleStream requested_stream(Dashboard& dashboard, const RunRequest& request) {
  const auto name = request.request.param("stream").value_or("");
  for (auto& stream : console_streams(*open_logs(dashboard, request.run->id)))
    if (stream.name == name) return stream;
  throw not_found(fmt::format("the run has no console stream '{}'", printable(name)));
}

std::string joined(const std::vector<std::string>& parts, size_t from) {
  std::string path;
  for (size_t i = from; i < parts.size(); ++i) path += (i > from ? "/" : "") + parts[i];
  return path;
}

ApiResponse file_response(catalog::InnerFile file, const std::string& name) {
  if (!file.file) throw not_found("file not found");
  return {.type = "application/octet-stream", .file = std::move(file), .download = name};
}

tracking::ArtifactStore store_of(const Dashboard& dashboard) {
  return tracking::ArtifactStore(dashboard.catalog.directory() / "artifacts",
                                 std::chrono::seconds(5));
}

// An entry id is the id of the run, with a suffix for its rank if several ranks log.
bool belongs_to_run(const std::string& entry, const catalog::RunSummary& run) {
  return entry == run.id ||
         std::ranges::any_of(run.sources, [&](const catalog::SourceSummary& source) {
           return source.info.id == entry;
         });
}

bool involves(const tracking::Artifact& artifact, const catalog::RunSummary& run) {
  return (artifact.made_by && belongs_to_run(*artifact.made_by, run)) ||
         std::ranges::any_of(artifact.used_by,
                             [&](const std::string& entry) { return belongs_to_run(entry, run); });
}

Json artifact_json(const tracking::Artifact& artifact) {
  auto files = Json::array();
  for (size_t i = 0; i < std::min(artifact.files.size(), kMaxListedFiles); ++i)
    files.push_back(
        {{"path", artifact.files[i].path},
         {"bytes", artifact.files[i].size},
         {"sha256", artifact.files[i].sha256},
         {"url", fmt::format("/api/artifacts/{}/{}/{}", artifact.name, artifact.version, i)}});
  return {{"name", artifact.name},
          {"type", artifact.type},
          {"version", artifact.version},
          {"aliases", artifact.aliases},
          {"digest", artifact.digest},
          {"bytes", artifact.size()},
          {"created", catalog::number_value(artifact.created)},
          {"made_by", artifact.made_by ? Json(*artifact.made_by) : Json(nullptr)},
          {"used_by", artifact.used_by},
          {"metadata", catalog::finite_value(artifact.metadata)},
          {"num_files", artifact.files.size()},
          {"files", files}};
}

size_t parse_index(const std::string& text) {
  if (const auto number = parse_number<size_t>(text)) return *number;
  throw not_found("file not found");
}

}  // namespace

ApiResponse get_console(Dashboard& dashboard, const RunRequest& request) {
  const auto stream = requested_stream(dashboard, request);
  const auto& query = request.request;
  const bool is_over = request.run->state != RunState::Running;
  const auto from = query.count("from", 0, SIZE_MAX / 2);
  if (const auto text = query.param("search"); text && !text->empty()) {
    const auto result = search_console(stream, *text, from, query.count("limit", 100, 1000, 1));
    auto matches = Json::array();
    for (const auto& match : result.matches)
      matches.push_back({{"offset", match.offset}, {"line", match.line}});
    return json_response({{"matches", matches}, {"end", result.end}, {"size", result.size}});
  }
  const auto bytes = query.count("bytes", 64u << 10, kMaxConsoleBytes, 1024);
  if (query.params.contains("tail"))
    return json_response(
        chunk_json(stream, read_console_tail(stream, query.count("tail", 500, 10000, 1), is_over)));
  if (query.params.contains("to"))
    return json_response(
        chunk_json(stream, read_console_before(stream, query.count("to", 0, SIZE_MAX / 2), bytes)));
  return json_response(chunk_json(stream, read_console(stream, from, bytes, is_over)));
}

ApiResponse get_files(const RunRequest& request) {
  if (request.rest.size() > 1) {
    const auto path = joined(request.rest, 1);
    return file_response(catalog::open_inner_file(request.run->dir, path), request.rest.back());
  }
  bool more = false;
  auto files = Json::array();
  for (const auto& file : catalog::list_files(request.run->dir, kMaxListedFiles, more))
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"modified", file.modified}});
  return json_response({{"files", files}, {"more", more}});
}

ApiResponse get_artifacts(Dashboard& dashboard, const ApiRequest& request) {
  std::vector<std::string> problems;
  catalog::RunSnapshot run;
  if (const auto id = request.param("run")) run = require_run(dashboard, *id);
  auto list = Json::array();
  std::error_code ignored;
  const auto store = store_of(dashboard);
  if (std::filesystem::is_directory(store.directory(), ignored))
    for (const auto& artifact : store.list(&problems))
      if (!run || involves(artifact, *run)) list.push_back(artifact_json(artifact));
  return json_response({{"artifacts", list}, {"problems", problems}});
}

ApiResponse get_artifact_file(Dashboard& dashboard, const std::vector<std::string>& parts) {
  if (parts.size() != 5 || !tracking::is_artifact_name(parts[2])) throw not_found("file not found");
  const auto store = store_of(dashboard);
  try {
    const auto artifact = store.find(fmt::format("{}:v{}", parts[2], parse_index(parts[3])));
    const auto number = parse_index(parts[4]);
    if (number >= artifact.files.size()) throw not_found("file not found");
    const auto& file = artifact.files[number];
    const auto inner = store.blob(file).lexically_relative(store.directory()).generic_string();
    return file_response(catalog::open_inner_file(store.directory(), inner),
                         std::filesystem::path(file.path).filename().string());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Config) throw not_found(error.what());
    throw;
  }
}

}  // namespace lockstep::dashboard
