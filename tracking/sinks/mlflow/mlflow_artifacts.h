// Uploads artifacts to an MLflow run, and formats tables and histograms as artifacts.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/record.h"
#include "tracking/artifacts/store.h"
#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

// The format of mlflow.load_table() and the evaluation view:
// {"columns": [...], "data": [[...], ...]}.
std::string mlflow_table(const Table& table);
// Same format, with the columns from, to and count and one row per bin.
std::string mlflow_histogram(const Histogram& histogram);

// Uploading a path again replaces the artifact, so uploads can be repeated.
class MlflowArtifacts {
 public:
  void add(const std::string& path, std::string content, const std::string& type);
  void add_file(const std::string& path, const std::filesystem::path& file);
  // Adds the files of the version as artifacts/NAME/vN/...
  void add_version(const ArtifactStore& store, const ArtifactUse& artifact);

  // Uploads and clears all pending artifacts. Returns the reason if any of them was rejected.
  // Throws what the client throws.
  std::optional<std::string> send(MlflowClient& client, const MlflowRun& run);

 private:
  struct Content {
    std::string content, type;
    std::filesystem::path file;  // empty: `content`
  };
  std::map<std::string, Content> pending_;
  std::optional<std::string> error_;
};

}  // namespace lockstep::tracking
