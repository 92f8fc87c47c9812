#include "tracking/sinks/mlflow/mlflow_artifacts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::tracking {

std::string mlflow_table(const Table& table) {
  return Json{{"columns", table.columns}, {"data", table.rows}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

std::string mlflow_histogram(const Histogram& histogram) {
  auto rows = Json::array();
  const auto bins = std::min(histogram.counts.size(), histogram.edges.size() - 1);
  for (size_t i = 0; i < bins && !histogram.edges.empty(); ++i)
    rows.push_back({histogram.edges[i], histogram.edges[i + 1], histogram.counts[i]});
  return Json{{"columns", {"from", "to", "count"}}, {"data", std::move(rows)}}.dump();
}

void MlflowArtifacts::add(const std::string& path, std::string content, const std::string& type) {
  pending_[path] = {.content = std::move(content), .type = type};
}

void MlflowArtifacts::add_file(const std::string& path, const std::filesystem::path& file) {
  pending_[path] = {.file = file};
}

// A missing or corrupt version must not block the other artifacts.
void MlflowArtifacts::add_version(const ArtifactStore& store, const ArtifactUse& artifact) {
  const auto reference = fmt::format("{}:v{}", artifact.name, artifact.version);
  try {
    for (const auto& file : store.find(reference).files)
      add_file(fmt::format("artifacts/{}/v{}/{}", artifact.name, artifact.version, file.path),
               store.blob(file));
  } catch (const Error& error) {
    error_ = fmt::format("{} was not uploaded: {}", reference, error.what());
  }
}

std::optional<std::string> MlflowArtifacts::send(MlflowClient& client, const MlflowRun& run) {
  auto error = std::exchange(error_, std::nullopt);
  for (const auto& [path, artifact] : pending_) {
    const auto reason = artifact.file.empty()
                            ? client.put_artifact(run, path, artifact.content, artifact.type)
                            : client.put_artifact(run, path, artifact.file);
    if (reason) error = fmt::format("{} was not uploaded: {}", path, *reason);
  }
  pending_.clear();
  return error;
}

}  // namespace lockstep::tracking
